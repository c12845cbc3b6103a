"""What docs/breakdown.md says, as plain SQL: slow, and next to nothing to get wrong.

Cuts the life of each thread at every instant at which anything begins or ends, asks for each piece
what is open, and joins neighbours that agree. Rows must be in their stored order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from coded import coded

if TYPE_CHECKING:
    import duckdb

_LIFE = """
WITH life AS (
  SELECT thread_id, coalesce(process_id, 0) AS process_id,
    greatest(start_ns, {start_ns}) AS start_ns, least(end_ns, {end_ns}) AS end_ns
  FROM thread WHERE greatest(start_ns, {start_ns}) < least(end_ns, {end_ns})
),
late AS (
  SELECT process_id, ts_ns AS from_ns FROM gpu_status AS s
  WHERE state = 'on' AND is_late AND NOT EXISTS (
    SELECT 1 FROM gpu_status AS e
    WHERE e.process_id = s.process_id AND e.state = 'on' AND e.ts_ns < s.ts_ns
  )
),
"""

_OVERLAP = (
    _LIFE
    + """
measured AS (
  SELECT thread_id, kind,
    coalesce(
      (SELECT bool_or(measured) FROM coverage WHERE kind = k.kind AND process_id = l.process_id),
      (SELECT bool_or(measured) FROM coverage WHERE kind = k.kind AND process_id IS NULL),
      false) AS measured
  FROM life AS l, (VALUES ('thread_state'), ('gpu_activity')) AS k(kind)
),
instant AS (
  SELECT thread_id, unnest([start_ns, end_ns]) AS at_ns FROM life
  UNION SELECT thread_id, unnest([start_ns, end_ns]) FROM thread_state_coded
  UNION SELECT thread_id, unnest([start_ns, end_ns]) FROM operation_coded
  UNION SELECT thread_id, unnest([start_ns, end_ns]) FROM native_call_coded
  UNION SELECT thread_id, unnest([start_ns, end_ns]) FROM wait_coded
  UNION SELECT thread_id, unnest([start_ns, end_ns]) FROM cuda_call_coded
  UNION SELECT l.thread_id, unnest([g.start_ns, g.end_ns])
    FROM gpu_activity_coded AS g JOIN life AS l ON l.process_id = g.process_id
  UNION SELECT l.thread_id, from_ns FROM late JOIN life AS l ON l.process_id = late.process_id
),
piece AS (
  SELECT l.thread_id, l.process_id, at_ns AS start_ns,
    lead(at_ns) OVER (PARTITION BY l.thread_id ORDER BY at_ns) AS end_ns
  FROM instant AS i JOIN life AS l
    ON l.thread_id = i.thread_id AND at_ns BETWEEN l.start_ns AND l.end_ns
),
seen AS (
  SELECT p.thread_id, p.start_ns, p.end_ns,
    (SELECT arg_max(path_id, rowid) FROM operation_coded AS o WHERE {open_o}) AS path_id,
    (SELECT arg_max(state, rowid) FROM thread_state_coded AS o WHERE {open_o}) AS state,
    (SELECT arg_max(layer, rowid) FROM native_call_coded AS o WHERE {open_o}) AS native_layer,
    (SELECT arg_max(kind, rowid) FROM wait_coded AS o WHERE {open_o}) AS wait,
    EXISTS (SELECT 1 FROM cuda_call_coded AS o WHERE {open_o}) AS is_cuda,
    EXISTS (SELECT 1 FROM cuda_call_coded AS o WHERE kind = 'sync' AND {open_o}) AS is_sync,
    EXISTS (
      SELECT 1 FROM gpu_activity_coded AS g
      WHERE g.process_id = p.process_id AND g.kind <> 'sync'
        AND g.start_ns <= p.start_ns AND g.end_ns > p.start_ns
    ) AS is_busy,
    (SELECT measured FROM measured AS m WHERE m.thread_id = p.thread_id AND kind = 'thread_state')
      AS knows_state,
    (SELECT measured FROM measured AS m WHERE m.thread_id = p.thread_id AND kind = 'gpu_activity')
      AND NOT EXISTS (FROM late WHERE process_id = p.process_id AND from_ns > p.start_ns)
      AS knows_gpu
  FROM piece AS p WHERE p.end_ns IS NOT NULL
),
keyed AS (
  SELECT thread_id, start_ns, end_ns, coalesce(path_id, 0) AS path_id,
    coalesce(state, CASE WHEN knows_state THEN 4 ELSE 255 END) AS state,
    CASE WHEN is_cuda THEN 4 ELSE coalesce(native_layer, 0) END AS layer,
    CASE WHEN state IN (0, 1) THEN 0 WHEN is_sync AND wait IS DISTINCT FROM 1 THEN 2
      ELSE coalesce(wait, 0) END AS wait,
    CASE WHEN NOT knows_gpu THEN 255 WHEN is_busy THEN 1 ELSE 0 END AS gpu
  FROM seen
),
segment AS (
  SELECT *, (path_id, state, layer, wait, gpu) IS DISTINCT FROM
      lag((path_id, state, layer, wait, gpu)) OVER (PARTITION BY thread_id ORDER BY start_ns)
      AS is_new
  FROM keyed
)
SELECT thread_id, path_id, state, layer, wait, gpu,
  sum(end_ns - start_ns)::BIGINT, count_if(is_new)::BIGINT, min(start_ns), max(end_ns)
FROM segment GROUP BY ALL ORDER BY ALL
"""
)

# Calls in the order they were entered: of those that start at once the longest is around the
# others.
_TRANSITIONS = (
    _LIFE
    + """
call AS (
  SELECT *, row_number() OVER (PARTITION BY thread_id ORDER BY start_ns, end_ns DESC, is_cuda, row)
    AS number
  FROM (
    SELECT thread_id, start_ns, end_ns, layer, false AS is_cuda, rowid AS row FROM native_call_coded
    UNION ALL SELECT thread_id, start_ns, end_ns, 4, true, rowid FROM cuda_call_coded
  ) WHERE end_ns >= start_ns
),
entry AS (
  SELECT e.thread_id, e.layer AS to_layer,
    (SELECT CASE WHEN bool_or(o.is_cuda) THEN 4 ELSE arg_max(o.layer, o.number) END FROM call AS o
      WHERE o.thread_id = e.thread_id AND o.number < e.number AND o.end_ns > e.start_ns
    ) AS from_layer,
    (SELECT arg_max(path_id, o.rowid) FROM operation_coded AS o
      WHERE o.thread_id = e.thread_id AND o.start_ns <= e.start_ns AND o.end_ns > e.start_ns
    ) AS path_id,
    coalesce((SELECT arg_max(o.start_ns, o.rowid) FROM operation_coded AS o
      WHERE o.thread_id = e.thread_id AND o.start_ns <= e.start_ns AND o.end_ns > e.start_ns
    ), t.start_ns) AS begun_ns
  FROM call AS e JOIN life AS l
    ON l.thread_id = e.thread_id AND e.start_ns >= l.start_ns AND e.start_ns < l.end_ns
  JOIN thread AS t ON t.thread_id = e.thread_id
),
probed AS (
  SELECT CASE layer WHEN 'python' THEN 1 WHEN 'simulator' THEN 2 WHEN 'backend' THEN 3 END AS layer,
    max(probed_ns) AS since_ns
  FROM site GROUP BY ALL
)
SELECT thread_id, coalesce(path_id, 0),
  coalesce(begun_ns >= (SELECT since_ns FROM probed AS p WHERE p.layer = to_layer), true),
  coalesce(from_layer, 0) AS from_layer, to_layer, count(*)
FROM entry WHERE coalesce(from_layer, 0) <> to_layer
GROUP BY ALL ORDER BY ALL
"""
)

# What is open at the instant of each sample: also what begins there, but not what ends there.
_SAMPLES = (
    _LIFE
    + """
seen AS (
  SELECT p.thread_id, p.layer,
    (SELECT arg_max(path_id, rowid) FROM operation_coded AS o WHERE {open_o}) AS path_id,
    (SELECT arg_max(layer, rowid) FROM native_call_coded AS o WHERE {open_o}) AS native_layer,
    EXISTS (SELECT 1 FROM cuda_call_coded AS o WHERE {open_o}) AS is_cuda,
    EXISTS (
      SELECT 1 FROM gpu_activity_coded AS g
      WHERE g.process_id = l.process_id AND g.kind <> 'sync'
        AND g.start_ns <= p.ts_ns AND g.end_ns > p.ts_ns
    ) AS is_busy,
    coalesce(
      (SELECT bool_or(measured) FROM coverage AS c
        WHERE c.kind = 'gpu_activity' AND c.process_id = l.process_id),
      (SELECT bool_or(measured) FROM coverage AS c
        WHERE c.kind = 'gpu_activity' AND c.process_id IS NULL),
      false)
      AND NOT EXISTS (FROM late WHERE process_id = l.process_id AND from_ns > p.ts_ns)
      AS knows_gpu
  FROM cpu_sample_coded AS p JOIN life AS l
    ON l.thread_id = p.thread_id AND p.ts_ns >= l.start_ns AND p.ts_ns < l.end_ns
)
SELECT thread_id, coalesce(path_id, 0) AS path_id,
  CASE WHEN is_cuda THEN 4 ELSE coalesce(native_layer, 0) END AS call_layer,
  CASE WHEN NOT knows_gpu THEN 255 WHEN is_busy THEN 1 ELSE 0 END AS gpu, layer, count(*)
FROM seen GROUP BY ALL ORDER BY thread_id, path_id, call_layer, layer, gpu
"""
)


def sample_rows(
    connection: duckdb.DuckDBPyConnection, start_ns: int = -(2**62), end_ns: int = 2**62
) -> list[tuple[Any, ...]]:
    """Return the rows that sample_count_coded should have, in its order."""
    is_open = "o.thread_id = p.thread_id AND o.start_ns <= p.ts_ns AND o.end_ns > p.ts_ns"
    query = _SAMPLES.format(start_ns=start_ns, end_ns=end_ns, open_o=is_open)
    return connection.execute(_in_codes(query)).fetchall()


def overlap_rows(
    connection: duckdb.DuckDBPyConnection, start_ns: int = -(2**62), end_ns: int = 2**62
) -> list[tuple[Any, ...]]:
    """Return the rows that thread_overlap_coded should have, sorted."""
    is_open = "o.thread_id = p.thread_id AND o.start_ns <= p.start_ns AND o.end_ns > p.start_ns"
    query = _OVERLAP.format(start_ns=start_ns, end_ns=end_ns, open_o=is_open)
    return connection.execute(_in_codes(query)).fetchall()


def transition_rows(
    connection: duckdb.DuckDBPyConnection, start_ns: int = -(2**62), end_ns: int = 2**62
) -> list[tuple[Any, ...]]:
    """Return the rows that transition_coded should have, sorted."""
    query = _TRANSITIONS.format(start_ns=start_ns, end_ns=end_ns)
    return connection.execute(_in_codes(query)).fetchall()


def _in_codes(query: str) -> str:
    tables = "thread_state_coded|native_call_coded|wait_coded|cpu_sample_coded"
    return re.sub(
        rf"\bFROM ({tables})\b", lambda found: f"FROM {coded(found[1], with_rowid=True)}", query
    )
