"""Makes traces as the commands do, with what a test wants to derive in place of the analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace.ingest.store import finalise as room

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    import duckdb

    from rlscope_trace.ingest.writer.trace_writer import TraceReport, TraceWriter
    from rlscope_trace.spool.directory import Spool

    Derive = Callable[[duckdb.DuckDBPyConnection], object]


def add_nothing(_con: duckdb.DuckDBPyConnection) -> None:
    pass


def report_nothing(_step: str, _done: int, _total: int) -> None:
    pass


def ended(made: AbstractContextManager[TraceWriter], derive: Derive = add_nothing) -> TraceReport:
    """Add what is derived to a trace, and let it be stored."""
    with made as trace:
        derive(trace.con)
    return trace.report


def finalise(
    spool: Spool,
    output: Path,
    *,
    overwrite: bool = False,
    derive: Derive = add_nothing,
    progress: Callable[[str, int, int], None] = report_nothing,
) -> TraceReport:
    return ended(room.finalise(spool, output, overwrite=overwrite, progress=progress), derive)
