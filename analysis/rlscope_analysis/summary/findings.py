"""What a summary points out: processes that spin, threads that wait for others or the GIL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.query import run_records
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.summary.gpu_findings import gpu_findings
from rlscope_analysis.summary.overhead import cost_findings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.trace import Trace

# What takes less than this of a lifetime, or of the CPU time, is not worth a line.
_LEAST_SHARE = 0.1
_LINES = 5

_SPIN_SQL = f"""
SELECT p.pid, p.name, s.spin_ns, s.backend_ns, s.stderr_ns
FROM (
  SELECT
    process_id,
    coalesce(sum(time_ns) FILTER (WHERE bucket = 'spin'), 0)::BIGINT AS spin_ns,
    coalesce(sum(time_ns) FILTER (WHERE bucket IN ('spin', 'backend')), 0)::BIGINT AS backend_ns,
    sum(time_ns)::BIGINT AS running_ns,
    sqrt(
      coalesce(sum(own_variance) FILTER (WHERE bucket = 'spin'), 0)
      + pow(coalesce(sum(borrowed_stderr_ns) FILTER (WHERE bucket = 'spin'), 0), 2)
    ) AS stderr_ns
  FROM _bucket_part
  WHERE on_cpu
  GROUP BY process_id
) AS s LEFT JOIN process AS p ON p.process_id = s.process_id
WHERE s.spin_ns >= {_LEAST_SHARE} * s.running_ns AND s.spin_ns > 0
ORDER BY s.spin_ns DESC LIMIT {_LINES}
"""  # noqa: S608 - numbers of our own
# As waits_on_peer, without the operations: those take longer than all the rest.
_PEER_SQL = f"""
WITH peer AS (
  SELECT w.thread_id, k.process_id, sum(w.end_ns - w.start_ns)::BIGINT AS time_ns
  FROM wait_coded AS w
  JOIN thread_state_coded AS s
    ON s.thread_id = w.thread_id AND s.start_ns = w.end_ns AND s.state = 1 AND s.waker > 0
  JOIN thread AS t ON t.thread_id = w.thread_id
  JOIN thread AS k ON k.thread_id = s.waker AND k.process_id <> t.process_id
  WHERE w.kind IN (5, 6, 8, 9)
  GROUP BY ALL
), waited AS (
  SELECT
    thread_id, sum(time_ns)::BIGINT AS time_ns, max(time_ns) AS most_ns, count(*) AS peers,
    arg_max(process_id, (time_ns, -process_id)) AS process_id
  FROM peer GROUP BY thread_id
)
SELECT
  t.name AS thread, t.tid, t.end_ns - t.start_ns AS lifetime_ns, w.time_ns, w.most_ns, w.peers,
  p.pid, p.name
FROM waited AS w
JOIN thread AS t ON t.thread_id = w.thread_id
LEFT JOIN process AS p ON p.process_id = w.process_id
WHERE w.time_ns >= {_LEAST_SHARE} * (t.end_ns - t.start_ns)
ORDER BY w.time_ns DESC, w.thread_id LIMIT {_LINES}
"""  # noqa: S608 - numbers of our own
_GIL_SQL = f"""
WITH held AS (
  SELECT thread_id, holder_thread_id, sum(wait_ns)::BIGINT AS time_ns
  FROM gil_wait GROUP BY ALL
), waited AS (
  SELECT
    thread_id, sum(time_ns)::BIGINT AS time_ns,
    max(time_ns) FILTER (WHERE holder_thread_id IS NOT NULL) AS most_ns,
    arg_max(holder_thread_id, (time_ns, -holder_thread_id))
      FILTER (WHERE holder_thread_id IS NOT NULL) AS holder_thread_id
  FROM held GROUP BY thread_id
)
SELECT
  t.name AS thread, t.tid, t.end_ns - t.start_ns AS lifetime_ns, w.time_ns, w.most_ns,
  h.name AS holder, h.tid AS holder_tid
FROM waited AS w
JOIN thread AS t ON t.thread_id = w.thread_id
LEFT JOIN thread AS h ON h.thread_id = w.holder_thread_id
WHERE w.time_ns >= {_LEAST_SHARE} * (t.end_ns - t.start_ns)
ORDER BY w.time_ns DESC, w.thread_id LIMIT {_LINES}
"""  # noqa: S608 - numbers of our own


def findings(trace: Trace) -> Iterable[Note]:
    """Yield one note for each finding."""
    yield from (note("spinning", **row) for row in run_records(trace, _SPIN_SQL))
    yield from gpu_findings(trace)
    yield from cost_findings(trace)
    yield from (note("waits_for_peer", **row) for row in run_records(trace, _PEER_SQL))
    yield from (note("waits_for_gil", **row) for row in run_records(trace, _GIL_SQL))
