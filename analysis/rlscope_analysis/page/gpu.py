"""What GPUs did, and what their processes did while they were idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query, run_records
from rlscope_analysis.result.page import Gpu

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace

_MOST_KERNELS = 10
_TIME_SQL = "FROM gpu_time WHERE scope IN ('trace', 'device') ORDER BY scope DESC, busy_ns DESC"
_KERNELS_SQL = f"""
SELECT
  name, sum(instances)::BIGINT AS instances, sum(sum_ns)::BIGINT AS sum_ns,
  sum(sum_ns) / sum(sum(sum_ns)) OVER () AS share
FROM gpu_kernel GROUP BY name ORDER BY sum_ns DESC, name LIMIT {_MOST_KERNELS}
"""  # noqa: S608 - a number of our own
_IDLE_SQL = """
SELECT g.process_id, p.pid, p.name, g.bucket, sum(g.time_ns)::BIGINT AS time_ns
FROM gpu_idle AS g JOIN process AS p ON p.process_id = g.process_id
GROUP BY ALL ORDER BY g.process_id, time_ns DESC, g.bucket
"""


def gpu(trace: Trace) -> Gpu | None:
    """Return it; None: nothing is known of any GPU."""
    time = tuple(run_records(trace, _TIME_SQL))
    if not time:
        return None
    return Gpu(
        time,
        tuple(run_records(trace, _KERNELS_SQL)),
        tuple(run_records(trace, _IDLE_SQL)),
        dict(run_query(trace, "SELECT device_id, name FROM gpu_device ORDER BY ALL").rows),
    )
