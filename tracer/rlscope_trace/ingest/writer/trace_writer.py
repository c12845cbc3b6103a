"""Writes a trace database: all of it, verified, or nothing.

    with write_trace(output, overwrite=False, progress=bar) as trace:
        for _rows in trace.insert_table("process", {"process_id": [1], "pid": [4242]}):
            ...  # what is held meanwhile may go
        trace.insert_meta({"loader": "import"})
        trace.insert_losses(losses)
    print(trace.report.rows)

Tables and columns are those of rlscope_analysis.schema. Whoever holds the trace may add to it
through trace.con until the block ends: then it is stored, verified and published.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from rlscope_analysis.schema import create_tables, declared_tables
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_trace import __version__
from rlscope_trace.ingest.writer.columns import row_count, stored_order, take
from rlscope_trace.ingest.writer.database_file import (
    BATCH_ROWS,
    DATABASE_NAME,
    configuration,
)
from rlscope_trace.ingest.writer.row_inserts import insert_rows
from rlscope_trace.ingest.writer.stored import check_rows, check_totals, totals_of
from rlscope_trace.ingest.writer.trace_stats import TraceStat
from rlscope_trace.outputs.place import PRIVATE_MODE, open_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rlscope_trace.ingest.writer.columns import Table
    from rlscope_trace.ingest.writer.database_file import ReportProgress
    from rlscope_trace.ingest.writer.stored import Totals


@dataclass(frozen=True, slots=True)
class TraceReport:
    """What was written."""

    output: Path
    rows: Counter[str]
    """Rows by table, of what was inserted before anything was derived."""
    records: int
    """Records read from a spool, or events from the files of another profiler."""
    losses: tuple[TraceStat, ...]
    file_bytes: int
    duration_s: float


class TraceWriter:
    """The tables of one trace while it is made."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, folder: Path, progress: ReportProgress
    ) -> None:
        """folder: a private one for the database, and for what is written on the way to it."""
        self.con = con
        self.folder = folder
        self.progress = progress
        self.rows: Counter[str] = Counter()
        self.records = 0
        """For the report."""
        self._totals: dict[str, Totals] = {}
        self._checks: list[Callable[[duckdb.DuckDBPyConnection], None]] = []
        self._report: TraceReport | None = None

    @property
    def report(self) -> TraceReport:
        """What was written; there is one once the block has ended."""
        if self._report is None:
            raise RuntimeError("the trace is not complete")
        return self._report

    def insert(
        self,
        table: str,
        query: str,
        batch: Mapping[str, NDArray[Any]] | None = None,
        values: Sequence[Any] | Mapping[str, Any] = (),
    ) -> int:
        """Insert what a query makes of columns, which it finds as `batch`; return how many rows.

        table: a name, or one with the columns that the query gives. values: of its parameters.
        """
        # DuckDB finds the columns by the name of the parameter that holds them.
        name, _, _ = table.partition(" ")
        ((count,),) = self.con.execute(f"INSERT INTO {table} {query}", values).fetchall()
        self.rows[name] += count
        return int(count)

    def insert_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows with all columns of a table."""
        self.rows[table] += insert_rows(self.con, table, rows)

    def insert_table(
        self, name: str, table: Table, *, threads: Table | None = None
    ) -> Iterator[int]:
        """Insert columns in the order that the schema names; yield the rows of each batch.

        Rows that tie keep theirs. A column that is not given is NULL. threads: the table
        thread, for the order of tables whose rows know their thread only.
        """
        self._totals[name] = totals_of(table)
        rows = row_count(name, table)
        order = stored_order(name, table, threads)
        for begin in range(0, rows, BATCH_ROWS):
            end = min(begin + BATCH_ROWS, rows)
            part = order[begin:end] if order is not None else None
            batch, selection, values = take(table, declared_tables()[name], part, begin, end)
            source = " FROM batch" if batch else ""
            yield self.insert(
                f"{name} ({', '.join(table)})", f"SELECT {', '.join(selection)}{source}", batch,
                values,
            )  # fmt: skip

    def insert_meta(self, facts: Mapping[str, str]) -> None:
        """Insert what holds for the trace as a whole, and who wrote it."""
        reported = {"tool_version": __version__, **facts, "schema_version": str(SCHEMA_VERSION)}
        self.insert_rows("meta", list(reported.items()))

    def insert_losses(self, losses: Sequence[TraceStat]) -> None:
        """Insert the rows of trace_stat; those with a count of 0 are left out."""
        self.insert_rows("trace_stat", [loss.row for loss in losses if loss.count != 0])

    def clear(self, table: str) -> None:
        """Take all rows out of a table, to insert them in another order."""
        self.con.execute(f"DELETE FROM {table}")  # noqa: S608
        self.rows[table] = 0

    def expect(self, table: str, totals: Totals) -> None:
        """Let the verification compare columns of a table that were inserted in parts."""
        self._totals[table] = totals

    def check_at_end(self, check: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
        """Let the verification make one check more, which raises VerificationError."""
        self._checks.append(check)

    def losses(self) -> tuple[TraceStat, ...]:
        """Return the rows of trace_stat in their order, those that others inserted too."""
        rows = self.con.execute(
            "SELECT code, count, first_ns, cpu, record, pid, bytes, detail FROM trace_stat"
            " ORDER BY rowid"
        ).fetchall()
        return tuple(TraceStat(*row) for row in rows)

    def verify(self, con: duckdb.DuckDBPyConnection) -> None:
        """Compare the reopened database with what was put in; VerificationError at a difference."""
        check_rows(con, self.rows)
        check_totals(con, self._totals)
        for check in self._checks:
            check(con)

    def complete(self, report: TraceReport) -> None:
        """Say what was written, once it is."""
        self._report = report


@contextlib.contextmanager
def write_trace(
    output: Path,
    *,
    overwrite: bool,
    progress: ReportProgress,
    mode: int = PRIVATE_MODE,
    started_s: float | None = None,
) -> Iterator[TraceWriter]:
    """Yield an empty trace; when the block ends, store, verify and publish it.

    progress(step, done, total) is called while it is stored. mode: of the file. started_s:
    time.monotonic() at the start of the work, for the duration in the report.

    On any failure, Ctrl-C included, the output is as it was and nothing is left beside it. Raises
    OutputExistsError, VerificationError, and what DuckDB and the OS raise.
    """
    started_s = time.monotonic() if started_s is None else started_s
    with open_place(output) as place:
        place.refuse_existing(overwrite=overwrite)
        with place.unfinished() as folder:
            config = configuration(folder.path)
            database = str(folder.path / DATABASE_NAME)
            with contextlib.closing(duckdb.connect(database, config=config)) as con:
                create_tables(con)
                trace = TraceWriter(con, folder.path, progress)
                yield trace
                losses = trace.losses()
                trace.rows["trace_stat"] = len(losses)
                progress("store", 0, 1)
                con.execute("CHECKPOINT")
                progress("store", 1, 1)
            progress("verify", 0, 1)
            config = {**config, "access_mode": "READ_ONLY"}
            with contextlib.closing(duckdb.connect(database, config=config)) as con:
                trace.verify(con)
            progress("verify", 1, 1)
            file_bytes = place.publish(folder, DATABASE_NAME, overwrite=overwrite, mode=mode)
    trace.complete(
        TraceReport(
            output, trace.rows, trace.records, losses, file_bytes, time.monotonic() - started_s
        )
    )
