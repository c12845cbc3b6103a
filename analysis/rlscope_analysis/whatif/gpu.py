"""What the GPU did for a program that is replayed: what started each activity, who waited for it.

An activity begins when its launch has come through, the one before it on its stream is over, and so
is what its stream was told to wait for. Times in ns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt

    Column = npt.NDArray[Any]

# An activity belongs to the first call that has its number.
_ACTIVITIES_SQL = """
SELECT
  dense_rank() OVER (ORDER BY a.process_id, a.device_id, coalesce(a.stream_id, -1)) AS lane,
  a.process_id, coalesce(a.stream_id, -1) AS stream_id, a.start_ns, a.end_ns,
  a.kind IN ('kernel', 'graph') AS is_kernel, coalesce(a.name_id, 0) AS name_id,
  c.thread_id, c.start_ns AS call_ns, c.end_ns AS returned_ns,
  a.kind = 'memcpy' AND c.end_ns >= a.end_ns AND a.start_ns >= c.start_ns AS is_blocking
FROM gpu_activity_coded AS a JOIN (
  SELECT process_id, correlation_id, arg_min(thread_id, start_ns) AS thread_id,
    arg_min(end_ns, start_ns) AS end_ns, min(start_ns) AS start_ns
  FROM cuda_call
  WHERE start_ns >= $1 AND start_ns < $2 AND end_ns >= start_ns AND thread_id IS NOT NULL
    AND process_id IS NOT NULL AND correlation_id IS NOT NULL
  GROUP BY process_id, correlation_id
) AS c USING (process_id, correlation_id)
WHERE a.kind <> 'sync' AND a.end_ns >= a.start_ns
ORDER BY lane, a.start_ns, a.end_ns
"""
# upto_ns: what was launched before that is waited for. stream_id: of this stream; NULL: of all.
_SYNCS_SQL = """
SELECT c.process_id, c.thread_id, c.start_ns, c.end_ns,
  coalesce(w.event_stream_id, CASE WHEN c.name LIKE '%Stream%' THEN s.stream_id END) AS stream_id,
  coalesce(e.start_ns, c.start_ns) AS upto_ns
FROM cuda_call AS c
LEFT JOIN (
  SELECT process_id, correlation_id, any_value(stream_id) AS stream_id
  FROM gpu_activity_coded WHERE kind = 'sync' GROUP BY ALL
) AS s ON s.process_id = c.process_id AND s.correlation_id = c.correlation_id
LEFT JOIN (
  SELECT process_id, correlation_id, any_value(event_stream_id) AS event_stream_id,
    any_value(event_correlation_id) AS event_correlation_id
  FROM gpu_event_wait WHERE stream_id IS NULL GROUP BY ALL
) AS w ON w.process_id = c.process_id AND w.correlation_id = c.correlation_id
LEFT JOIN (
  SELECT process_id, correlation_id, min(start_ns) AS start_ns FROM cuda_call GROUP BY ALL
) AS e ON e.process_id = c.process_id AND e.correlation_id = w.event_correlation_id
WHERE c.kind = 'sync' AND c.start_ns >= $1 AND c.start_ns < $2 AND c.end_ns >= c.start_ns
  AND c.thread_id IS NOT NULL AND c.process_id IS NOT NULL
ORDER BY c.start_ns
"""
# A stream that waits for what another had been given before an event.
_STREAM_WAITS_SQL = """
SELECT w.process_id, w.stream_id, c.start_ns, w.event_stream_id, e.start_ns AS upto_ns
FROM gpu_event_wait AS w
JOIN cuda_call AS c ON c.process_id = w.process_id AND c.correlation_id = w.correlation_id
JOIN cuda_call AS e ON e.process_id = w.process_id AND e.correlation_id = w.event_correlation_id
WHERE w.stream_id IS NOT NULL AND w.event_stream_id IS NOT NULL
  AND c.start_ns >= $1 AND c.start_ns < $2
ORDER BY c.start_ns
"""

# Operations of threads that launch, and the calls that a CUDA graph cannot hold.
_INSTANCES_SQL = """
SELECT name, thread_id, start_ns, end_ns FROM operation
WHERE start_ns >= $1 AND end_ns <= $2 AND end_ns > start_ns
  AND thread_id IN (SELECT DISTINCT thread_id FROM cuda_call_coded)
ORDER BY name, thread_id, start_ns, end_ns DESC
"""
_FORBIDDEN_SQL = """
SELECT thread_id, start_ns FROM cuda_call_coded
WHERE kind IN ('sync', 'memory') AND start_ns >= $1 AND start_ns < $2 AND thread_id IS NOT NULL
ORDER BY thread_id, start_ns
"""


@dataclass(frozen=True, slots=True)
class Gpu:
    """Activities in the order of their streams (lanes), and the waits for them.

    activities: lane, process_id, stream_id, start_ns, end_ns, is_kernel, name_id, thread_id,
    call_ns, returned_ns, is_blocking; also latency_ns (from the call to where it may begin), gap_ns
    (that its stream lets pass before it) and length_ns.
    waits: of threads: thread_id, start_ns, end_ns (the wait was over by then), activity.
    after: of activities: activity, and the one before it in another lane.
    """

    activities: dict[str, Column]
    waits: dict[str, Column]
    after: Column
    least_latency_ns: float
    """What a launch takes to come through where nothing holds it up."""
    operations: dict[str, Column]
    """Of threads that launch: name, thread_id, start_ns, end_ns, in this order."""
    forbidden: dict[str, Column]
    """Calls that no graph can hold: thread_id, start_ns."""


def read_gpu(connection: duckdb.DuckDBPyConnection, start_ns: int, end_ns: int) -> Gpu | None:
    """Read what was launched in [start_ns, end_ns), and who waited for it; None: nothing was."""
    window = [start_ns, end_ns]
    found = connection.execute(_ACTIVITIES_SQL, window).fetchnumpy()
    if not len(found["lane"]):
        return None
    activities = {name: np.ma.getdata(column) for name, column in found.items()}
    lanes = _Lanes(activities)
    after = _after(lanes, connection.execute(_STREAM_WAITS_SQL, window).fetchall())
    least = _timed(activities, after)
    waits = _waits(lanes, connection.execute(_SYNCS_SQL, window).fetchall(), least)
    return Gpu(
        activities, waits, after, least,
        *(
            {name: np.ma.getdata(column) for name, column in rows.items()}
            for rows in (
                connection.execute(_INSTANCES_SQL, window).fetchnumpy(),
                connection.execute(_FORBIDDEN_SQL, window).fetchnumpy(),
            )
        ),
    )  # fmt: skip


class _Lanes:
    """Finds the last activity of a stream that was launched before an instant."""

    def __init__(self, activities: dict[str, Column]) -> None:
        self.activities = activities
        order = np.lexsort((activities["call_ns"], activities["lane"]))
        self._of: dict[tuple[int, int], list[Column]] = {}
        lane = activities["lane"][order]
        for rows in np.split(order, np.flatnonzero(np.diff(lane)) + 1):
            key = int(activities["process_id"][rows[0]]), int(activities["stream_id"][rows[0]])
            self._of.setdefault(key, []).append(rows)
        self._calls = {
            key: [activities["call_ns"][rows] for rows in found] for key, found in self._of.items()
        }

    def streams_of(self, process: int) -> list[int]:
        return [stream for owner, stream in self._of if owner == process]

    def last_before(self, process: int, stream: int, ts_ns: int) -> list[int]:
        return self._beside(process, stream, ts_ns, -1)

    def first_after(self, process: int, stream: int, ts_ns: int) -> list[int]:
        return self._beside(process, stream, ts_ns, 0)

    def _beside(self, process: int, stream: int, ts_ns: int, step: int) -> list[int]:
        found = []
        calls = self._calls.get((process, stream), [])
        for rows, times in zip(self._of.get((process, stream), []), calls, strict=True):
            at = int(np.searchsorted(times, ts_ns)) + step
            if 0 <= at < len(rows):
                found.append(int(rows[at]))
        return found


def _after(lanes: _Lanes, rows: list[tuple[int, ...]]) -> Column:
    pairs = {
        (later, earlier)
        for process, stream, ts_ns, event_stream, upto_ns in rows
        for later in lanes.first_after(process, stream, ts_ns)
        for earlier in lanes.last_before(process, event_stream, upto_ns)
        # What was launched later cannot be waited for: such a pair would never end.
        if lanes.activities["end_ns"][earlier] <= lanes.activities["start_ns"][later]
    }
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def _timed(activities: dict[str, Column], after: Column) -> float:
    """Add latency_ns, gap_ns and length_ns; return the least latency of a launch."""
    first = activities["call_ns"].min()
    start, end, call = (
        (activities[name] - first).astype(float) for name in ("start_ns", "end_ns", "call_ns")
    )
    lane = activities["lane"]
    begins = np.flatnonzero(np.r_[True, lane[1:] != lane[:-1]])
    upto = np.concatenate([np.maximum.accumulate(part) for part in np.split(end, begins[1:])])
    free = np.r_[-np.inf, upto[:-1]]
    free[begins] = -np.inf
    np.maximum.at(free, after[:, 0], end[after[:, 1]])
    whole = np.maximum(0, start - call)
    alone = whole[(free <= call) & activities["is_kernel"]]
    least = float(np.median(alone)) if len(alone) else float(whole.min())
    is_queued = free > call + least
    latency = np.where(is_queued, np.minimum(least, whole), whole)
    began = np.maximum(start, np.minimum(free, end))
    activities["latency_ns"] = latency
    activities["gap_ns"] = np.where(
        is_queued, np.maximum(0, start - np.maximum(np.minimum(free, start), call + latency)), 0
    )
    activities["length_ns"] = np.maximum(0, end - began)
    return least


def _waits(lanes: _Lanes, syncs: list[tuple[Any, ...]], least_ns: float) -> dict[str, Column]:
    of, rows = lanes.activities, []
    for process, thread, start_ns, end_ns, stream, upto_ns in syncs:
        for which in [stream] if stream is not None else lanes.streams_of(process):
            for activity in lanes.last_before(process, which, upto_ns):
                over_ns = min(end_ns, max(start_ns, int(of["end_ns"][activity])))
                rows.append((thread, start_ns, over_ns, activity))
    for activity in np.flatnonzero(of["is_blocking"]).tolist():
        call_ns, start_ns = int(of["call_ns"][activity]), int(of["start_ns"][activity])
        since_ns = call_ns + min(int(least_ns), max(0, start_ns - call_ns))
        rows.append(
            (int(of["thread_id"][activity]), since_ns, int(of["end_ns"][activity]), activity)
        )
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return dict(zip(("thread_id", "start_ns", "end_ns", "activity"), table.T, strict=True))


def waited_ns(waits: dict[str, Column], thread: Column, begin: Column, end: Column) -> Column:
    """Return how much of each interval lies in waits of its thread for the GPU."""
    found = np.zeros(len(thread))
    for which in np.unique(waits["thread_id"]):
        mine = np.flatnonzero(thread == which)
        rows = waits["thread_id"] == which
        order = np.argsort(waits["start_ns"][rows], kind="stable")
        since = waits["start_ns"][rows][order]
        until = np.maximum.accumulate(waits["end_ns"][rows][order])
        since = np.maximum(since, np.r_[since[:1], until[:-1]])  # they may overlap
        length = np.maximum(0, until - since)
        # Differences are floats, since an instant in ns has too many digits for one.
        first = since.min()
        at = (np.column_stack((since, np.maximum(since, until))).ravel() - first).astype(float)
        total = np.cumsum(length)
        sums = np.column_stack((total - length, total)).ravel().astype(float)
        upto, before = ((ts_ns[mine] - first).astype(float) for ts_ns in (end, begin))
        found[mine] = np.interp(upto, at, sums) - np.interp(before, at, sums)
    return found
