"""Threads, processes and their states into the database. 0 and "" stand for none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.schema.enums import word_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rlscope_trace.ingest.store.processes import Columns
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

_STATE, _WAIT = word_of("THREAD_STATE", "state"), word_of("WAIT_KIND", "wait")
_WAKER = word_of("WAKER_KIND", "waker_kind")


def insert_states(trace: TraceWriter, batch: Columns) -> None:
    """Insert thread_id, start_ns, end_ns (ns), cpu, waker_thread_id, and the codes of words."""
    trace.insert(
        "thread_state_coded",
        f"SELECT thread_id, start_ns, end_ns, {_STATE}, cpu, {_WAKER},"  # noqa: S608
        " nullif(waker_thread_id, 0) FROM batch",
        batch,
    )
    trace.insert(
        "wait_coded",
        f"SELECT thread_id, start_ns, end_ns, {_WAIT}, nullif(lock_address, 0),"  # noqa: S608
        f" CASE WHEN {_WAIT} = 'lock' THEN is_mutex <> 0 END FROM batch WHERE {_WAIT} IS NOT NULL",
        batch,
    )


def insert_threads(trace: TraceWriter, batch: Columns) -> None:
    """Insert the columns of thread."""
    trace.insert(
        "thread",
        "SELECT thread_id, process_id, nullif(tid, 0), start_ns, end_ns, nullif(name, ''), ended,"
        " lost_ns, NULL FROM batch",
        batch,
    )


def insert_processes(trace: TraceWriter, batch: Columns) -> None:
    """Insert the columns of process, exit_code -1 for none."""
    trace.insert(
        "process",
        "SELECT process_id, nullif(host, ''), nullif(pid, 0), nullif(parent_process_id, 0),"
        " start_ns, end_ns, nullif(name, ''), nullif(command, ''), nullif(exit_code, -1),"
        " nullif(born_ns, 0), nullif(title, ''), NULL FROM batch",
        batch,
    )


def insert_clock(trace: TraceWriter, clocks: NDArray[np.void]) -> None:
    """Insert ts_ns, realtime_ns, boottime_ns (ns) of each look at the clocks."""
    batch = {name: np.ascontiguousarray(clocks[name]) for name in clocks.dtype.names or ()}
    trace.insert("clock", "SELECT ts_ns, realtime_ns, boottime_ns FROM batch", batch)
