"""What lies in a viewport, by one query: what is narrower than a pixel is added up there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.result.timeline import (
    CALL,
    COLUMNS,
    CUDA,
    GPU,
    OPERATION,
    PATH,
    STATE,
)
from rlscope_analysis.viewport.lanes import MOST_CALLS, MOST_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_analysis.trace import Trace

_INSIDE = "start_ns < {end} AND end_ns > {start}"
_OF_THREADS = f"thread_id IN ({{threads}}) AND {_INSIDE}"
_SQL = f"""
WITH found AS (
  SELECT thread_id AS lane, {STATE} AS line, enum_code(state) AS code, start_ns, end_ns
  FROM thread_state_coded WHERE {_OF_THREADS}
  UNION ALL
  SELECT o.thread_id, {OPERATION} + p.depth, o.path_id, o.start_ns, o.end_ns
  FROM (FROM operation_coded WHERE {_OF_THREADS}) AS o
  JOIN operation_path AS p ON p.path_id = o.path_id WHERE p.depth < {MOST_DEPTH}
  UNION ALL
  SELECT thread_id, {CALL} + depth, coalesce(site_id, -1), start_ns, end_ns
  FROM native_call_coded WHERE {_OF_THREADS} AND depth < {MOST_CALLS}
  UNION ALL
  SELECT thread_id, {CUDA}, coalesce(name_id, -1), start_ns, end_ns
  FROM cuda_call_coded WHERE {_OF_THREADS}
  UNION ALL
  SELECT v.lane, {GPU}, coalesce(g.name_id, -1), g.start_ns, g.end_ns
  FROM (FROM gpu_activity_coded WHERE kind <> 'sync' AND {_INSIDE}) AS g
  JOIN _view_stream AS v ON v.device_id IS NOT DISTINCT FROM g.device_id
    AND v.stream_id IS NOT DISTINCT FROM g.stream_id
  WHERE v.lane IN ({{streams}})
  {{path}}
), clipped AS (
  SELECT
    lane, line, code, greatest(start_ns, {{start}}) AS start_ns, least(end_ns, {{end}}) AS end_ns,
    end_ns - start_ns AS length_ns
  FROM found
), placed AS (
  SELECT
    *, end_ns - start_ns >= {{least}} AS is_wide,
    CASE WHEN end_ns - start_ns >= {{least}} THEN start_ns
    ELSE {{start}} + (start_ns - {{start}}) // {{least}} * {{least}} END AS first_ns
  FROM clipped
)
SELECT
  lane::BIGINT AS lane, line::BIGINT AS line, code::BIGINT AS code, is_wide::BIGINT AS is_wide,
  first_ns::BIGINT AS start_ns, max(end_ns)::BIGINT AS end_ns,
  sum(end_ns - start_ns)::BIGINT AS time_ns,
  CASE WHEN is_wide THEN max(length_ns) ELSE 0 END::BIGINT AS length_ns, count(*)::BIGINT AS count
FROM placed GROUP BY lane, line, code, is_wide, first_ns ORDER BY lane, line, first_ns, code
"""  # noqa: S608 - names and numbers of our own
_PATH_SQL = f"""
  UNION ALL
  SELECT coalesce(c.thread_id, v.lane), {PATH}, enum_code(c.cause), c.start_ns, c.end_ns
  FROM (FROM critical_path_coded WHERE {_INSIDE}) AS c
  LEFT JOIN _view_stream AS v ON c.thread_id IS NULL
    AND v.device_id IS NOT DISTINCT FROM c.device_id
    AND v.stream_id IS NOT DISTINCT FROM c.stream_id
  WHERE coalesce(c.thread_id, v.lane) IN ({{threads}}, {{streams}})
"""  # noqa: S608 - as above
# Lanes times pixels: of each there may be a slice of each kind.
MOST_CELLS = 120_000
_NONE = "NULL"


def read_slices(
    trace: Trace, lanes: Sequence[int], span: tuple[int, int], *, pixels: int, has_path: bool
) -> dict[str, list[int]]:
    """Return the slices of these lanes, cut at the ends of the span, a list for each of COLUMNS.

    A wide one is as it is in the trace, and length_ns how long it is there. Others are added up by
    the pixel that they begin in: start_ns is that of it, time_ns how long they last together.
    """
    start_ns, end_ns = span
    pixels = max(1, min(pixels, MOST_CELLS // max(1, len(lanes))))
    given = {
        "start": start_ns,
        "end": end_ns,
        "least": max(1, -(-(end_ns - start_ns) // pixels)),
        "threads": _listed(lane for lane in lanes if lane >= 0),
        "streams": _listed(lane for lane in lanes if lane < 0),
    }
    path = _PATH_SQL.format(**given) if has_path else ""
    with damage_reported(trace.path):
        found = trace.connection.execute(_SQL.format(**given, path=path)).fetchnumpy()
    return {name: found[name].tolist() for name in COLUMNS}


def _listed(lanes: Iterable[int]) -> str:
    return ", ".join(f"{lane:d}" for lane in lanes) or _NONE
