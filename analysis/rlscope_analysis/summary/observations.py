"""What a summary points out beside what limits the iterations: processes that spin, idle GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.query import run_records
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.summary.gpu_observations import gpu_observations
from rlscope_analysis.summary.overhead import cost_observations

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


def observations(trace: Trace) -> Iterable[Note]:
    """Yield one note for each."""
    yield from (note("spinning", **row) for row in run_records(trace, _SPIN_SQL))
    yield from gpu_observations(trace)
    yield from cost_observations(trace)
