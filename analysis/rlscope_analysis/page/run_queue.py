"""How long threads waited for a CPU, of the leading process, the workers and all others."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query
from rlscope_analysis.result.page import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.trace import Trace

_WAIT_SQL = """
WITH grouped AS (
  SELECT
    process_id,
    CASE WHEN is_lead THEN 'lead' WHEN role = 'worker' THEN 'workers' ELSE 'others' END AS who,
    CASE WHEN is_lead THEN role ELSE '' END AS role
  FROM training_process
)
SELECT g.who, g.role, r.duration_ns
FROM run_queue_latency AS r JOIN grouped AS g ON g.process_id = r.process_id
"""
_SUMS_SQL = f"""
SELECT
  who, any_value(role) AS role, count(*), sum(duration_ns)::BIGINT, quantile_disc(duration_ns, 0.5),
  quantile_disc(duration_ns, 0.99), max(duration_ns)
FROM ({_WAIT_SQL}) GROUP BY who
"""  # noqa: S608 - our own
_BINS_SQL = f"""
SELECT
  who, floor(2 * log2(greatest(duration_ns, 1)))::INTEGER AS place, count(*),
  sum(duration_ns)::BIGINT
FROM ({_WAIT_SQL}) GROUP BY ALL ORDER BY ALL
"""  # noqa: S608 - our own
_PROCESSES_SQL = f"""
SELECT g.who, count(*) FROM ({_WAIT_SQL.split("SELECT g.who")[0]} FROM grouped) AS g GROUP BY g.who
"""  # noqa: S608 - our own
_ORDER = ("lead", "workers", "others")


def queues(trace: Trace) -> Iterator[Queue]:
    """Yield those that waited at all."""
    bins = defaultdict(list)
    for who, *found in run_query(trace, _BINS_SQL).rows:
        bins[who].append(tuple(found))
    processes = dict(run_query(trace, _PROCESSES_SQL).rows)
    sums = {row[0]: row[1:] for row in run_query(trace, _SUMS_SQL).rows}
    for who in _ORDER:
        if who in sums:
            role, waits, time_ns, p50_ns, p99_ns, max_ns = sums[who]
            yield Queue(
                who, role, processes[who], waits, time_ns, p50_ns, p99_ns, max_ns, tuple(bins[who])
            )
