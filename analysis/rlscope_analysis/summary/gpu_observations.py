"""What a summary points out about GPUs: what nvidia-smi would say, and why they were idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query, run_records
from rlscope_analysis.result.note import Note, note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.trace import Trace

_LINES = 5
# By how much the two must differ to be worth a line.
_LEAST_DIFFERENCE = 0.1
# What was less than this of the span of the GPU work, or of the idle time, is not worth a line.
_LEAST_SHARE = 0.1
_REASONS = 3
# The gaps of more would take longer than all the rest of a summary: --view gpu-idle tells of them.
_MOST_ACTIVITIES = 1_000_000

# Asked first: the views below take a pass over all activities, and over the states of threads.
_ANY_SQL = """
SELECT
  (SELECT count(*) FROM gpu_activity_coded),
  EXISTS (SELECT 1 FROM counter WHERE name = 'utilization_gpu')
"""
_UTILIZATION_SQL = f"""
SELECT
  coalesce(host || ' ', '') || 'GPU ' || device_id AS gpu, span_ns, utilization_share, kernel_ns
FROM gpu_utilization
WHERE scope = 'trace' AND abs(utilization_share - kernel_share) >= {_LEAST_DIFFERENCE}
  -- Where a traced program used GPUs unseen, the two need not be the same work.
  AND NOT EXISTS (FROM _unseen_gpu AS u WHERE u.host IS NOT DISTINCT FROM gpu_utilization.host)
ORDER BY abs(utilization_share - kernel_share) DESC, host, device_id LIMIT {_LINES}
"""  # noqa: S608 - numbers of our own
_IDLE_SQL = f"""
WITH held AS (
  SELECT process_id, bucket, sum(time_ns)::BIGINT AS time_ns
  FROM {{idle}} WHERE bucket IS NOT NULL
  GROUP BY process_id, bucket
), reason AS (
  SELECT
    process_id,
    list({{'bucket': bucket, 'time_ns': time_ns}} ORDER BY time_ns DESC, bucket) AS reasons
  FROM held GROUP BY process_id
)
SELECT p.pid, p.name, g.span_ns, g.idle_ns, r.reasons
FROM gpu_time AS g
LEFT JOIN reason AS r ON r.process_id = g.process_id
LEFT JOIN process AS p ON p.process_id = g.process_id
WHERE g.scope = 'process' AND g.idle_ns >= {_LEAST_SHARE} * g.span_ns AND g.idle_ns > 0
ORDER BY g.idle_ns DESC, g.process_id LIMIT {_LINES}
"""  # noqa: S608 - numbers of our own
_NO_REASONS = "(SELECT 0 AS process_id, NULL::VARCHAR AS bucket, 0 AS time_ns)"


def gpu_observations(trace: Trace) -> Iterable[Note]:
    """Yield one note for each."""
    ((activities, has_readings),) = run_query(trace, _ANY_SQL).rows
    if has_readings:
        yield from (note("utilization", **row) for row in run_records(trace, _UTILIZATION_SQL))
    if activities:
        yield from _idle(trace, with_reasons=activities <= _MOST_ACTIVITIES)


def _idle(trace: Trace, *, with_reasons: bool) -> Iterable[Note]:
    query = _IDLE_SQL.replace("{idle}", "gpu_idle" if with_reasons else _NO_REASONS)
    for row in run_records(trace, query):
        row["reasons"] = [
            reason
            for reason in (row["reasons"] or [])[:_REASONS]
            if reason["time_ns"] >= _LEAST_SHARE * row["idle_ns"]
        ]
        yield note("gpu_idle", **row)
