"""The time of every thread by operation, state, layer, wait and GPU: docs/breakdown.md.

Reads a trace in parts, sweeps several of them at once, and joins what they found. The result does
not depend on how the trace was cut, nor on how many parts are swept at once.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis import _sweep
from rlscope_analysis.errors import TraceError
from rlscope_analysis.sweep.thread_parts import Part, ThreadOverlap, join, present
from rlscope_analysis.sweep.thread_plan import Cell, Plan, make_plan
from rlscope_analysis.sweep.thread_read import TableReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ThreadOverlap", "compute", "store"]

# Where parts are swept one after the other, few are better: only memory sets them a limit.
LONE_CELL_ROWS = 5 << 23
# How often progress is told, and how late Ctrl-C is noticed at most.
_PROGRESS_S = 0.1
# A list per column and statement: small beside the memory limit of the recorder.
_STORED_AT_ONCE = 8192


def compute(
    connection: duckdb.DuckDBPyConnection,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> ThreadOverlap:
    """Compute the derived tables of the trace that `connection` has open, without writing them.

    start_ns, end_ns: only this stretch of time, [start_ns, end_ns); None: from the first or to the
    last instant. jobs: parts swept at once, each by a thread of its own. progress(done, total):
    rows, told about ten times a second.

    Tables are read as the connection sees them, TEMP tables and views included, but by cursors of
    it: what its open transaction wrote is not seen. Raises TraceError where a table cannot be read.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be positive, not {jobs}")
    try:
        plan = make_plan(
            connection, start_ns, end_ns, cell_rows=None if jobs > 1 else LONE_CELL_ROWS
        )
        with TableReader(connection, plan) as reader:
            parts = list(_swept(plan, reader, jobs, progress))
    except (duckdb.Error, _sweep.ColumnError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise TraceError(
            f"the overlap of the threads cannot be computed: {reason}",
            hint="rlscope-trace sql TRACE .schema shows the tables it has",
        ) from error
    return present(join(parts), plan.strays)


def store(connection: duckdb.DuckDBPyConnection, overlap: ThreadOverlap) -> None:
    """Insert the rows into the tables of `connection` that are named as in the schema."""
    for table, columns in (
        ("thread_overlap_coded", overlap.overlap),
        ("transition_coded", overlap.transitions),
        ("sample_count_coded", overlap.samples),
    ):
        names = ", ".join(columns)
        lists = ", ".join("unnest(?)" for _ in columns)
        rows = len(columns["thread_id"])
        for first in range(0, rows, _STORED_AT_ONCE):
            chunk = [column[first : first + _STORED_AT_ONCE] for column in columns.values()]
            connection.execute(f"INSERT INTO {table} ({names}) SELECT {lists}", chunk)


def _swept(
    plan: Plan, reader: TableReader, jobs: int, progress: Callable[[int, int], None] | None
) -> Iterator[Part]:
    """Sweep every cell of the plan; yields what each gave, in any order."""
    state = _sweep.SweepProgress()

    def tell() -> None:
        if progress is not None:
            # Rows at the edge of a cell are read by its neighbour too.
            progress(min(state.rows, plan.rows), plan.rows)

    tell()
    waiting = iter(plan.cells)
    running: set[Future[Part]] = set()
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="sweep")
    try:
        while True:
            # Not all at once: a part that is done is joined before many others are.
            while len(running) < 2 * jobs and (cell := next(waiting, None)) is not None:
                running.add(pool.submit(_sweep_cell, cell, reader, state))
            if not running:
                break
            done, running = wait(running, timeout=_PROGRESS_S, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
            tell()
    except BaseException:  # KeyboardInterrupt too: the workers must end before their connection
        state.cancel()
        reader.interrupt()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if progress is not None:
        progress(plan.rows, plan.rows)


def _sweep_cell(cell: Cell, reader: TableReader, state: _sweep.SweepProgress) -> Part:
    try:
        return _sweep_once(cell, reader, state, frozenset())
    except _sweep.OrderError as error:
        disordered = str(error)
    # The order within a process can be had from DuckDB, at the price of a sort.
    return join(
        [_sweep_process(part, reader, state, frozenset({disordered})) for part in cell.by_process()]
    )._replace(rows_out_of_order=reader.count_out_of_order(cell))


def _sweep_process(
    cell: Cell, reader: TableReader, state: _sweep.SweepProgress, disordered: frozenset[str]
) -> Part:
    try:
        return _sweep_once(cell, reader, state, disordered)
    except _sweep.OrderError as error:
        if str(error) in disordered:
            raise
        disordered |= {str(error)}
    return _sweep_process(cell, reader, state, disordered)


def _sweep_once(
    cell: Cell, reader: TableReader, state: _sweep.SweepProgress, disordered: frozenset[str]
) -> Part:
    with reader.open(cell, disordered) as tables:
        return Part(
            *_sweep.sweep_threads(
                cell.columns,
                tables,
                window_start_ns=cell.start_ns,
                window_end_ns=cell.end_ns,
                probed_ns=cell.probed_ns,
                progress=state,
            )
        )
