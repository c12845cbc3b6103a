"""Writes what an import read as a trace, and puts what goes wrong into words."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb

from rlscope_trace.errors import TracerError, VerificationError, reason_of
from rlscope_trace.ingest.importers.wording import shown
from rlscope_trace.ingest.writer.columns import Column, row_count
from rlscope_trace.ingest.writer.database_file import ReportProgress, is_interrupt
from rlscope_trace.ingest.writer.trace_stats import TraceStat
from rlscope_trace.ingest.writer.trace_writer import TraceWriter, write_trace
from rlscope_trace.outputs.place import PRIVATE_MODE, open_place

Tables = Mapping[str, Mapping[str, Column]]

# A full disk is one of these, as DuckDB tells it: which one depends on where it meets it.
_WRITE_ERRORS = (duckdb.OperationalError, duckdb.FatalException, OSError, MemoryError)


@contextlib.contextmanager
def write_import(  # noqa: PLR0913 - one parameter per part of the trace
    output: Path,
    tables: Tables,
    *,
    meta: Mapping[str, str],
    losses: Sequence[TraceStat],
    events: int,
    overwrite: bool,
    progress: ReportProgress,
    started_s: float | None = None,
    mode: int = PRIVATE_MODE,
) -> Iterator[TraceWriter]:
    """Yield a trace with what was read, for the caller to add what is derived: see write_trace().

    tables: columns by table and name, all of a table equally long; times in ns. Rows may come in
        any order.
    events: how many were read.

    Raises OutputExistsError, VerificationError, TracerError; KeyboardInterrupt at Ctrl-C.
    """
    with _explained(output), write_trace(
        output, overwrite=overwrite, progress=progress, mode=mode, started_s=started_s
    ) as trace:  # fmt: skip
        trace.records = events
        # One transaction for all tables: each on its own would wait for the disk.
        trace.con.begin()
        _insert(trace, tables)
        trace.insert_meta(meta)
        trace.insert_losses(losses)
        trace.con.commit()
        yield trace


def _insert(trace: TraceWriter, tables: Tables) -> None:
    filled = {name: table for name, table in tables.items() if row_count(name, table)}
    total = sum(row_count(name, table) for name, table in filled.items())
    written = 0
    for name, table in filled.items():
        for rows in trace.insert_table(name, table, threads=tables.get("thread")):
            written += rows
            trace.progress("write", written, total)


def refuse_existing(output: Path, *, overwrite: bool) -> None:
    """Raise what write_import() would raise at once, before anything is read."""
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
