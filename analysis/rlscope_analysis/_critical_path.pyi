from typing import Any

import numpy as np
import numpy.typing as npt

_Column = npt.NDArray[np.generic]

class PathOrderError(RuntimeError):
    """Rows of a table are not in order, or end before they start; its name is the message."""

def walk_back(
    *,
    threads: tuple[_Column, ...],
    states: tuple[_Column, ...],
    waits: tuple[_Column, ...],
    other_runs: tuple[_Column, ...],
    quotas: tuple[_Column, ...],
    messages: tuple[_Column, ...],
    activities: tuple[_Column, ...],
    syncs: tuple[_Column, ...],
    events: tuple[_Column, ...],
    iterations: tuple[_Column, ...],
) -> dict[str, npt.NDArray[Any]]:
    """Walk back through each iteration, along what held it up; times are int64 nanoseconds.

    threads: thread_id, process_id (int32), start_ns, end_ns, is_measured (bool).
    states: thread_id (int32), start_ns, end_ns, state (uint8), cpu (int16), waker_kind (uint8),
      waker_thread_id (int32, 0 none).
    waits: thread_id (int32), start_ns, end_ns, kind (uint8), for_holder (bool: for a lock that
      another thread had).
    other_runs: cpu (int16), start_ns, end_ns, program_id (int32); by cpu and start.
    quotas: thread_id (int32), ts_ns; by both.
    messages: thread_id (int32), read_ns, sent_ns, sender_thread_id (int32), wait (uint8); by the
    first two.
    activities: process_id, device_id (int32), stream_id (int64, -1 not known), start_ns, end_ns,
      launch_thread_id (int32, 0 not known), launch_ns; by process, device, stream and start.
    syncs: thread_id (int32), from_ns (what it waited for ended), to_ns (the call returned),
      process_id, device_id (int32), stream_id (int64, -1 not known); by thread and from_ns.
    events: process_id, device_id (int32), to_stream_id (int64), to_ns (what waited began),
      from_stream_id (int64), from_ns (what it waited for ended); by all of them.
    iterations: thread_id (int32), start_ns, end_ns.
    Returns the columns of the pieces: iteration (from 0), start_ns, end_ns, thread_id (0 on a GPU),
    activity (its position, -1 on a thread), cause, by_thread_id, by_program_id, wait,
    waiter_thread_id. Those of an iteration tile it; the latest comes first. Releases the GIL.
    Raises PathOrderError.
    """
