"""What a lane did at one instant: what somebody who clicks there wants to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.damage import damage_reported

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace

_AT = "start_ns <= $2 AND end_ns > $2"
# By what they tell, in the order in which it is shown.
_QUERIES = {
    "state": """
SELECT
  s.state, s.start_ns, s.end_ns, s.cpu, s.waker_kind, s.waker_thread_id, w.pid AS waker_pid,
  coalesce(t.python_name, t.name) AS waker, n.kind AS wait,
  e.waker_kind AS ended_kind, e.waker_thread_id AS ended_by_thread_id
FROM (FROM thread_state WHERE thread_id = $1 AND {at}) AS s
-- Who ended a wait is known of what follows it.
LEFT JOIN (FROM thread_state WHERE thread_id = $1) AS e
  ON e.start_ns = s.end_ns AND s.state IN ('sleeping', 'blocked')
LEFT JOIN thread AS t ON t.thread_id = s.waker_thread_id
LEFT JOIN process AS w ON w.process_id = t.process_id
LEFT JOIN (FROM wait WHERE thread_id = $1 AND {at}) AS n ON true
LIMIT 1""",
    "operation": """
SELECT name, start_ns, end_ns, depth, source FROM operation
WHERE thread_id = $1 AND {at} ORDER BY depth LIMIT 12""",
    "call": """
SELECT coalesce(s.symbol, c.layer) AS name, c.layer, c.start_ns, c.end_ns, c.depth
FROM (FROM native_call WHERE thread_id = $1 AND {at}) AS c
LEFT JOIN site AS s ON s.site_id = c.site_id ORDER BY c.depth LIMIT 4""",
    "cuda": "SELECT name, kind, start_ns, end_ns FROM cuda_call WHERE thread_id = $1 AND {at}"
    " LIMIT 4",
    "gpu": """
SELECT
  g.name, g.kind, g.start_ns, g.end_ns, g.bytes,
  c.thread_id AS launched_by, c.start_ns AS launched_ns
FROM (
  SELECT g.* FROM gpu_activity AS g JOIN _view_stream AS v ON v.lane = $1
    AND v.device_id IS NOT DISTINCT FROM g.device_id
    AND v.stream_id IS NOT DISTINCT FROM g.stream_id
  WHERE {at} AND g.kind <> 'sync'
) AS g
LEFT JOIN cuda_call AS c
  ON c.process_id = g.process_id AND c.correlation_id = g.correlation_id
LIMIT 4""",
}  # fmt: skip
_PATH_SQL = """
SELECT
  c.cause, c.start_ns, c.end_ns,
  CASE WHEN i.source <> 'whole' THEN c.iteration_id END AS iteration_id
FROM (FROM critical_path WHERE {at}) AS c
JOIN iteration AS i ON i.iteration_id = c.iteration_id
LEFT JOIN _view_stream AS v ON c.thread_id IS NULL
  AND v.device_id IS NOT DISTINCT FROM c.device_id AND v.stream_id IS NOT DISTINCT FROM c.stream_id
WHERE coalesce(c.thread_id, v.lane) = $1 LIMIT 1
"""


def read_place(
    trace: Trace, lane: int, ts_ns: int, *, has_path: bool
) -> dict[str, list[dict[str, Any]]]:
    """Return what was there, by what it is: state, operation, call, cuda, gpu, path."""
    asked = _QUERIES | ({"path": _PATH_SQL} if has_path else {})
    is_thread = lane >= 0
    found = {}
    with damage_reported(trace.path):
        for name, query in asked.items():
            if name == "path" or (name == "gpu") is not is_thread:
                rows = trace.connection.execute(query.format(at=_AT), [lane, ts_ns])
                columns = [column[0] for column in rows.description or ()]
                found[name] = [dict(zip(columns, row, strict=True)) for row in rows.fetchall()]
    return found
