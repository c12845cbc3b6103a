"""Writes a trace database from columns: sorted, verified, and all of it or nothing.

    write_trace(
        output,
        {"process": {"process_id": [1], "pid": [4242]}, "thread": {...}, ...},
        meta={"loader": "import"}, losses=[...], events=1000,
        overwrite=False, complete=install_views, progress=bar,
    )

Tables and columns are those of rlscope_analysis.schema; a column that is not given is NULL.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from rlscope_analysis.schema import create_tables
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_trace import __version__
from rlscope_trace.errors import TracerError, VerificationError, reason_of
from rlscope_trace.importers.columns import Column, Table, row_count, stored_order, take
from rlscope_trace.importers.verify_columns import Totals, check_stored, totals_of
from rlscope_trace.importers.wording import shown
from rlscope_trace.outputs.place import PRIVATE_MODE, open_place
from rlscope_trace.store.database_file import (
    BATCH_ROWS,
    DATABASE_NAME,
    Complete,
    ReportProgress,
    configuration,
    is_interrupt,
)
from rlscope_trace.store.stats import STAT_COLUMNS, TraceStat, stats_from

Tables = Mapping[str, Mapping[str, Column]]

# What the writer itself fills.
_OWN_TABLES = frozenset({"meta", "trace_stat"})
# A full disk is one of these, as DuckDB tells it: which one depends on where it meets it.
_WRITE_ERRORS = (duckdb.OperationalError, duckdb.FatalException, OSError, MemoryError)


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import wrote."""

    output: Path
    rows: dict[str, int]
    """Rows by table, of the tables that have some."""
    events: int
    """Events read from the files."""
    losses: tuple[TraceStat, ...]
    file_bytes: int
    duration_s: float


def write_trace(  # noqa: PLR0913 - one parameter per part of the trace
    output: Path,
    tables: Tables,
    *,
    meta: Mapping[str, str],
    losses: Sequence[TraceStat],
    events: int,
    overwrite: bool,
    complete: Complete,
    progress: ReportProgress,
    started_s: float | None = None,
    mode: int = PRIVATE_MODE,
) -> ImportReport:
    """Write, verify and publish a trace database.

    tables: columns by table and name, all of a table equally long; times in ns. Rows may come in
        any order; they are stored in the order that the schema names. Rows that tie keep theirs.
    meta: facts to add to schema_version and tool_version.
    losses: the rows of trace_stat; those with a count of 0 are left out.
    complete(con): adds what is derived, before the file is closed and verified.
    started_s: time.monotonic() at the start of the import, for the duration in the report.
    mode: of the file.

    On any failure, Ctrl-C included, the output is as it was and nothing is left beside it. Raises
    OutputExistsError, VerificationError, TracerError; KeyboardInterrupt at Ctrl-C.
    """
    started_s = time.monotonic() if started_s is None else started_s
    kept = tuple(loss for loss in losses if loss.count != 0)
    everything: dict[str, Mapping[str, Column]] = {
        **{name: table for name, table in tables.items() if row_count(name, table)},
        "meta": _meta_table(meta),
        "trace_stat": _stat_table(kept),
    }
    if given := _OWN_TABLES & set(tables):
        raise ValueError(f"meta and losses are parameters of their own: {sorted(given)}")
    with _explained(output), open_place(output) as place:
        place.refuse_existing(overwrite=overwrite)
        with place.unfinished() as folder:
            # What could not be worked out of the trace is among them.
            kept = _write(folder.path, everything, complete, progress)
            file_bytes = place.publish(folder, DATABASE_NAME, overwrite=overwrite, mode=mode)
    return ImportReport(
        output=output,
        rows={
            **{name: row_count(name, table) for name, table in everything.items()},
            "trace_stat": len(kept),
        },
        events=events,
        losses=kept,
        file_bytes=file_bytes,
        duration_s=time.monotonic() - started_s,
    )


def refuse_existing(output: Path, *, overwrite: bool) -> None:
    """Raise what write_trace() would raise at once, before anything is read."""
    with _explained(output), open_place(output) as place:
        place.refuse_existing(overwrite=overwrite)


@contextlib.contextmanager
def _explained(output: Path) -> Iterator[None]:
    """Put any failure into words."""
    try:
        yield
    except BaseException as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        if isinstance(error, VerificationError):
            raise VerificationError(
                f"{output} was not written: {error}", hint="check the disk, then try again"
            ) from error
        if isinstance(error, duckdb.DataError):
            raise TracerError(
                f"{output} was not written: the files hold a number that a trace has no place for"
                f" ({shown(reason_of(error))})",
                hint="export them once more",
            ) from error
        if isinstance(error, _WRITE_ERRORS):
            raise TracerError(
                f"cannot write {output}: {reason_of(error)}",
                hint="write it somewhere else with -o",
            ) from error
        raise


def _write(
    folder: Path, tables: Tables, complete: Complete, progress: ReportProgress
) -> tuple[TraceStat, ...]:
    """Write and verify the database; return the rows of trace_stat."""
    config = configuration(folder)
    database = str(folder / DATABASE_NAME)
    total = sum(row_count(name, table) for name, table in tables.items())
    written = 0
    expected: dict[str, Totals] = {}
    with contextlib.closing(duckdb.connect(database, config=config)) as con:
        create_tables(con)
        # One transaction for all tables: each on its own would wait for the disk.
        con.begin()
        for name, table in tables.items():
            expected[name] = totals_of(table)
            for rows in _insert(con, name, table, tables.get("thread")):
                written += rows
                progress("write", written, total)
        con.commit()
        complete(con)
        stats = tuple(stats_from(con, 0))
        expected["trace_stat"] = totals_of(_stat_table(stats))
        progress("store", 0, 1)
        con.execute("CHECKPOINT")
        progress("store", 1, 1)
    progress("verify", 0, 1)
    config = {**config, "access_mode": "READ_ONLY"}
    with contextlib.closing(duckdb.connect(database, config=config)) as con:
        check_stored(con, expected)
    progress("verify", 1, 1)
    return stats


def _insert(
    con: duckdb.DuckDBPyConnection, name: str, table: Table, threads: Table | None
) -> Iterator[int]:
    """Insert a table in its stored order; yields the rows of each batch."""
    rows = row_count(name, table)
    order = stored_order(name, table, threads)
    for begin in range(0, rows, BATCH_ROWS):
        part = order[begin : begin + BATCH_ROWS] if order is not None else None
        # DuckDB finds the numpy columns by the name of this variable.
        batch, selection, values = take(table, part, begin, min(begin + BATCH_ROWS, rows))
        columns = ", ".join(table)
        source = " FROM batch" if batch else ""
        con.execute(
            f"INSERT INTO {name} ({columns}) SELECT {', '.join(selection)}{source}",
            values,
        )
        yield min(begin + BATCH_ROWS, rows) - begin


def _meta_table(meta: Mapping[str, str]) -> Table:
    facts = {"schema_version": str(SCHEMA_VERSION), "tool_version": __version__, **meta}
    return {"key": list(facts), "value": list(facts.values())}


def _stat_table(losses: Sequence[TraceStat]) -> Table:
    return {name: [getattr(loss, name) for loss in losses] for name in STAT_COLUMNS}
