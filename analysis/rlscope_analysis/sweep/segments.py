"""The segments of every thread in order, streamed: docs/flow.md.

A segment is a piece of the life of a thread in which nothing of this changes: the operation, the
state, the layer, the wait, whether the GPU works. The sweep that adds them up hands them out.
"""

from __future__ import annotations

import atexit
import os
import threading
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import duckdb
import numpy as np

from rlscope_analysis import _sweep
from rlscope_analysis.errors import TraceError
from rlscope_analysis.sweep.thread_plan import SWEPT_TABLES, make_plan
from rlscope_analysis.sweep.thread_read import TableReader
from rlscope_analysis.sweep.threads import LONE_CHUNK_ROWS
from rlscope_analysis.views import view_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rlscope_analysis.sweep.thread_plan import Chunk, Plan

Selection: TypeAlias = "tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]"
# The stream as the view `segment` knows it.
_STREAM_NAME = "_segment_coded"
# Threads that sweep for a stream that is not read to its end yet.
_sweeping: dict[threading.Thread, _sweep.SegmentWriter] = {}
os.register_at_fork(after_in_child=_sweeping.clear)


class OpenTrace(Protocol):
    """What is needed of a trace that is open."""

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """Return the connection that sees it."""


class Segments:
    """The segments of a trace, an Arrow stream (`__arrow_c_stream__`): pyarrow, polars, DuckDB.

    Columns: thread_id, start_ns, end_ns, path_id; state, layer, wait, as places in THREAD_STATES,
    LAYERS and WAITS of schema.vocabulary; gpu, 1 while one worked; NOT_MEASURED where that is so.
    In the order of (process, thread_id, start_ns). Each stream sweeps the trace once more, while it
    is read, and keeps a few thousand segments at a time. The trace must stay open.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        start_ns: int | None,
        end_ns: int | None,
        only: Selection | None = None,
    ) -> None:
        plan = make_plan(connection, start_ns, end_ns, chunk_rows=LONE_CHUNK_ROWS)
        # Asked for now: a stream may be opened by a query that runs on this very connection.
        self._reader = TableReader(connection, plan)
        self._disordered = disordered_tables(connection)
        self._only = only
        self._chunks = list(_in_order(plan, is_sorted=bool(self._disordered)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a stream of all segments, from the first one on."""
        return _sweep.segment_stream(self._start, self._only)

    def _start(self, writer: _sweep.SegmentWriter) -> None:
        # A daemon: the end of the program does not wait for it, but ends it.
        thread = threading.Thread(target=self._write, args=(writer,), name="segments", daemon=True)
        _sweeping[thread] = writer
        thread.start()

    def _write(self, writer: _sweep.SegmentWriter) -> None:
        try:
            for chunk in self._chunks:
                self._sweep(chunk, writer)
            writer.finish()
        except _sweep.Cancelled as error:
            writer.finish(str(error))
        except _sweep.OrderError as error:
            writer.finish(f"rows of {error} are not in the order of (process, thread, start)")
        except Exception as error:  # noqa: BLE001 - reported to whoever reads: no one else would know
            writer.finish(str(error).strip().partition("\n")[0] or type(error).__name__)
        finally:
            _sweeping.pop(threading.current_thread(), None)

    def _sweep(self, chunk: Chunk, writer: _sweep.SegmentWriter) -> None:
        with self._reader.open(chunk, self._disordered) as tables:
            _sweep.sweep_threads(
                chunk.columns,
                tables,
                window_start_ns=chunk.start_ns,
                window_end_ns=chunk.end_ns,
                probed_ns=chunk.probed_ns,
                progress=_sweep.SweepProgress(),
                segments=writer,
            )


@atexit.register
def _end_sweeps() -> None:
    """End what still sweeps: a thread that comes back to a Python that is gone crashes it."""
    for thread, writer in list(_sweeping.items()):
        writer.close()
        thread.join()


def segments(
    trace: OpenTrace,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    only: Selection | None = None,
) -> Segments:
    """Return the segments of every thread of an open trace, in order.

    start_ns, end_ns: only what lies in [start_ns, end_ns), on the clock of the trace; the segments
    at its ends are cut there. only: (thread_id, start_ns, end_ns) of the intervals that are wanted,
    int32 and int64, those of a thread in order and apart. Raises TraceError where a table cannot be
    read.
    """
    try:
        return Segments(trace.connection, start_ns, end_ns, only)
    except (duckdb.Error, _sweep.ColumnError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise TraceError(
            f"the segments of the threads cannot be computed: {reason}",
            hint="rlscope-trace sql TRACE .schema shows the tables it has",
        ) from error


def selection(trace: OpenTrace, query: str) -> Selection:
    """Return the intervals that a query finds: thread_id INTEGER, start_ns and end_ns BIGINT."""
    thread_id, start_ns, end_ns = trace.connection.execute(query).fetchnumpy().values()
    return _plain(thread_id), _plain(start_ns), _plain(end_ns)


def _plain(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(np.ma.getdata(column))


def make_segment_table(trace: OpenTrace, name: str, only: Selection, *, columns: str = "*") -> None:
    """Make a table, in memory, of the segments of these intervals; columns: as SELECT takes them.

    DuckDB takes a stream for a small table: joined as it is, each row would be compared with each.
    """
    stream = f"{name}_stream"
    trace.connection.register(stream, segments(trace, only=only))
    try:
        trace.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {columns} FROM {stream}"  # noqa: S608
        )
    finally:
        trace.connection.unregister(stream)


def segment_relation(trace: OpenTrace) -> duckdb.DuckDBPyRelation:
    """Return the segments in words; queries on the connection of the trace know them as segment."""
    trace.connection.register(_STREAM_NAME, segments(trace))
    trace.connection.execute(view_sql("segment"))
    return trace.connection.sql("FROM segment")


def disordered_tables(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Return the tables to sort: all, where the sweep that derived the totals met such rows."""
    ((is_found,),) = connection.execute(
        "SELECT EXISTS (FROM overlap_fault WHERE fault = 'disordered')"
    ).fetchall()
    return frozenset(table for table, *_ in SWEPT_TABLES) if is_found else frozenset()


def _in_order(plan: Plan, *, is_sorted: bool) -> Iterator[Chunk]:
    """Yield the chunks so that a thread is whole before the next begins.

    is_sorted: rows are sorted by a query, which can order the threads of one process only.
    """
    # A process that was cut: the same threads, one interval after the other.
    for _, group in groupby(plan.chunks, key=lambda chunk: id(chunk.columns)):
        pieces = list(group)
        if len(pieces) > 1:
            for of_thread in zip(*(piece.by_thread() for piece in pieces), strict=True):
                yield from of_thread
        elif is_sorted:
            yield from pieces[0].by_process()
        else:
            yield pieces[0]
