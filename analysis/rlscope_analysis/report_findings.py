"""What a summary points out: processes that spin, and threads that wait for other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.query import run_query
from rlscope_analysis.report_rows import percent, printable

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
  WHERE bucket IN ('python', 'simulator', 'backend', 'cuda_api', 'spin', 'other', 'running')
  GROUP BY process_id
) AS s LEFT JOIN process AS p ON p.process_id = s.process_id
WHERE s.spin_ns >= {_LEAST_SHARE} * s.running_ns AND s.spin_ns > 0
ORDER BY s.spin_ns DESC LIMIT {_LINES}
"""  # noqa: S608 - numbers of our own
_PEER_SQL = f"""
WITH peer AS (
  SELECT
    thread_id, peer_pid, peer_name, sum(time_ns)::BIGINT AS time_ns
  FROM waits_on_peer
  WHERE peer_process_id <> process_id
  GROUP BY thread_id, peer_process_id, peer_pid, peer_name
), waited AS (
  SELECT
    thread_id, sum(time_ns)::BIGINT AS time_ns, max(time_ns) AS most_ns, count(*) AS peers,
    arg_max(peer_pid, time_ns) AS peer_pid, arg_max(peer_name, time_ns) AS peer_name
  FROM peer GROUP BY thread_id
)
SELECT
  t.name, t.tid, t.end_ns - t.start_ns, w.time_ns, w.most_ns, w.peers, w.peer_pid, w.peer_name
FROM waited AS w JOIN thread AS t ON t.thread_id = w.thread_id
WHERE w.time_ns >= {_LEAST_SHARE} * (t.end_ns - t.start_ns)
ORDER BY w.time_ns DESC, w.thread_id LIMIT {_LINES}
"""  # noqa: S608 - numbers of our own


def findings(trace: Trace) -> Iterable[str]:
    """Yield one sentence for each finding, each with its share."""
    for pid, name, spin_ns, backend_ns, stderr_ns in run_query(trace, _SPIN_SQL).rows:
        error = f" ± {stderr_ns / backend_ns * 100:.1f}" if stderr_ns else ""
        yield (
            f"{percent(spin_ns, backend_ns)}{error} % of the CPU time that {_named(name, pid)}"
            f" spends in the backend or spinning is spinning: {spin_ns / 1e9:,.3f} s in loops"
            " that only wait"
        )
    for name, tid, lifetime_ns, time_ns, most_ns, peers, peer_pid, peer_name in run_query(
        trace, _PEER_SQL
    ).rows:
        whom = _named(peer_name, peer_pid)
        if peers > 1:
            whom = f"{peers} other processes, {percent(most_ns, lifetime_ns)} % for {whom} alone"
        yield (
            f"thread {printable(name or '?')}/{tid or '?'} waits {percent(time_ns, lifetime_ns)} %"
            f" of its lifetime for {whom}; see --view peer"
        )


def _named(name: str | None, pid: int | None) -> str:
    return f"{printable(name or '(no name)')} (pid {'not known' if pid is None else pid})"
