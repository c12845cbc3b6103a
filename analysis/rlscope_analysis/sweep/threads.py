"""The time of every thread by operation, state, layer, wait and GPU: docs/breakdown.md.

Reads a trace in parts, sweeps one after the other, and joins what they found. The result does not
depend on how the trace was cut.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis import _sweep
from rlscope_analysis.errors import TraceError
from rlscope_analysis.schema import value_of
from rlscope_analysis.sweep.thread_parts import Part, ThreadOverlap, join, present
from rlscope_analysis.sweep.thread_plan import Chunk, Plan, make_plan
from rlscope_analysis.sweep.thread_read import TableReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ThreadOverlap", "compute", "store"]

# Few parts are better: only memory sets them a limit.
LONE_CHUNK_ROWS = 5 << 23
# How often progress is reported, and how late Ctrl-C is noticed at most.
_PROGRESS_S = 0.1
# A list per column and statement: small beside the memory limit of the recorder.
_STORED_AT_ONCE = 8192


def compute(
    connection: duckdb.DuckDBPyConnection,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ThreadOverlap:
    """Compute the derived tables of the trace that `connection` has open, without writing them.

    start_ns, end_ns: only this interval, [start_ns, end_ns); None: from the first or to the
    last instant. progress(done, total): rows, reported about ten times a second.

    Tables are read by cursors of the connection: neither its TEMP objects nor what its open
    transaction wrote are seen. Raises TraceError where a table cannot be read.
    """
    try:
        plan = make_plan(connection, start_ns, end_ns, chunk_rows=LONE_CHUNK_ROWS)
        with TableReader(connection, plan) as reader:
            parts = list(_swept(plan, reader, progress))
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
        lists = ", ".join(value_of(table, column) for column in columns)
        rows = len(columns["thread_id"])
        for first in range(0, rows, _STORED_AT_ONCE):
            chunk = [column[first : first + _STORED_AT_ONCE] for column in columns.values()]
            connection.execute(f"INSERT INTO {table} ({names}) SELECT {lists}", chunk)


def _swept(
    plan: Plan, reader: TableReader, progress: Callable[[int, int], None] | None
) -> Iterator[Part]:
    """Sweep every chunk of the plan; yields what each gave."""
    state = _sweep.SweepProgress()

    def tell() -> None:
        if progress is not None:
            # Rows at the edge of a chunk are read by its neighbour too.
            progress(min(state.rows, plan.rows), plan.rows)

    tell()
    # By a thread of its own: this one tells progress, and takes Ctrl-C.
    pool = ThreadPoolExecutor(1, thread_name_prefix="sweep")
    try:
        for chunk in plan.chunks:
            part = pool.submit(_sweep_chunk, chunk, reader, state)
            while not wait([part], timeout=_PROGRESS_S).done:
                tell()
            yield part.result()
            tell()
    except BaseException:  # KeyboardInterrupt too: the worker must end before its connection
        state.cancel()
        reader.interrupt()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if progress is not None:
        progress(plan.rows, plan.rows)


def _sweep_chunk(chunk: Chunk, reader: TableReader, state: _sweep.SweepProgress) -> Part:
    try:
        return _sweep_once(chunk, reader, state, frozenset())
    except _sweep.OrderError as error:
        disordered = str(error)
    # The order within a process can be had from DuckDB, at the price of a sort.
    return join(
        [
            _sweep_process(part, reader, state, frozenset({disordered}))
            for part in chunk.by_process()
        ]
    )._replace(rows_out_of_order=reader.count_out_of_order(chunk))


def _sweep_process(
    chunk: Chunk, reader: TableReader, state: _sweep.SweepProgress, disordered: frozenset[str]
) -> Part:
    try:
        return _sweep_once(chunk, reader, state, disordered)
    except _sweep.OrderError as error:
        if str(error) in disordered:
            raise
        disordered |= {str(error)}
    return _sweep_process(chunk, reader, state, disordered)


def _sweep_once(
    chunk: Chunk, reader: TableReader, state: _sweep.SweepProgress, disordered: frozenset[str]
) -> Part:
    with reader.open(chunk, disordered) as tables:
        return Part(
            *_sweep.sweep_threads(
                chunk.columns,
                tables,
                window_start_ns=chunk.start_ns,
                window_end_ns=chunk.end_ns,
                probed_ns=chunk.probed_ns,
                progress=state,
            )
        )
