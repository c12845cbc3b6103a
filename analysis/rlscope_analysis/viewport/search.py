"""Where something of a name is: operations, calls, and what GPUs did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.damage import damage_reported

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace

_SQL = """
WITH named AS (
  SELECT o.thread_id AS lane, p.name, o.start_ns, o.end_ns
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE contains(lower(p.name), lower($1)) AND p.source IS DISTINCT FROM 'lost'
  UNION ALL
  SELECT c.thread_id, s.symbol, c.start_ns, c.end_ns
  FROM native_call_coded AS c JOIN site AS s ON s.site_id = c.site_id
  WHERE contains(lower(s.symbol), lower($1))
  UNION ALL
  SELECT c.thread_id, s.value, c.start_ns, c.end_ns
  FROM cuda_call_coded AS c JOIN string AS s ON s.string_id = c.name_id
  WHERE contains(lower(s.value), lower($1))
  UNION ALL
  SELECT v.lane, s.value, g.start_ns, g.end_ns
  FROM gpu_activity_coded AS g JOIN string AS s ON s.string_id = g.name_id
  JOIN _view_stream AS v ON v.device_id IS NOT DISTINCT FROM g.device_id
    AND v.stream_id IS NOT DISTINCT FROM g.stream_id
  WHERE contains(lower(s.value), lower($1)) AND g.kind <> 'sync'
)
SELECT
  count(*) AS count, count(*) FILTER (start_ns < $2) AS before,
  arg_min({lane: lane, name: name, start_ns: start_ns, end_ns: end_ns}, start_ns)
    FILTER (start_ns > $2) AS next,
  arg_max({lane: lane, name: name, start_ns: start_ns, end_ns: end_ns}, start_ns)
    FILTER (start_ns < $2) AS previous
FROM named
"""


def search(trace: Trace, words: str, ts_ns: int) -> dict[str, Any]:
    """Return how many instances have a name with these words in it, and those nearest to ts_ns.

    next: the first that begins later, previous: the last that began before; None: there is none.
    """
    with damage_reported(trace.path):
        rows = trace.connection.execute(_SQL, [words, ts_ns])
        columns = [column[0] for column in rows.description or ()]
        return dict(zip(columns, rows.fetchall()[0], strict=True))
