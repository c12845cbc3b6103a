"""Which part of the events of a kind come alone: so late after the last that caches are cold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.overhead.place import PROBED_CUDA_SQL

if TYPE_CHECKING:
    import duckdb

# CPU time of the thread after which what an event needs is in the caches no more.
_APART_NS = 100_000
# By the mean distance on each thread: of events twice as close half come alone.
_ALONE_SQL = f"""
WITH event AS (
  SELECT 'switch' AS event, thread_id FROM thread_state_coded WHERE state = 'running'
  UNION ALL SELECT 'wakeup', waker_thread_id FROM thread_state_coded
  WHERE state = 'runnable' AND waker_thread_id IS NOT NULL
  UNION ALL SELECT 'call', thread_id FROM native_call_coded
  UNION ALL SELECT 'call', thread_id FROM ({PROBED_CUDA_SQL})
  UNION ALL SELECT 'sample', thread_id FROM cpu_sample_coded
  UNION ALL SELECT 'gil_release', thread_id FROM gil_release_coded
), counted AS (
  SELECT event, thread_id, count(*) AS events FROM event GROUP BY event, thread_id
), ran AS (
  SELECT thread_id, sum(end_ns - start_ns) AS time_ns
  FROM thread_state_coded WHERE state = 'running' GROUP BY thread_id
)
SELECT event, sum(least(c.events, r.time_ns / {_APART_NS})) / sum(c.events)
FROM counted AS c JOIN ran AS r USING (thread_id)
GROUP BY event
"""  # noqa: S608 - a query of our own


def alone(connection: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """Return the part by kind of event, 0 to 1, of those that the trace has."""
    found = dict(connection.execute(_ALONE_SQL).fetchall())
    # One kind as to what it needs of the caches.
    return found | ({"call_expensive": found["call"]} if "call" in found else {})
