"""Splits the running time that no exact call tells of among the layers: docs/transitions.md.

The samples that fell into a stratum (the time of one thread, one stack of operations, with or
without a GPU at work) are a draw from it: its time is split as they are. A stratum without samples
is split by those of the nearest group that has some; without any, its layer stays unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema.enums import code_of, word_of
from rlscope_analysis.schema.vocabulary import ESTIMATE_METHODS, NOT_MEASURED

if TYPE_CHECKING:
    import duckdb

_OWN, _PATH, _OPERATION, _THREAD, _PROCESS = (
    ESTIMATE_METHODS.index(method) for method in ("own", "path", "operation", "thread", "process")
)
_CODES = (
    f"coalesce({{}}::INTEGER, {NOT_MEASURED}) AS gpu_code, {code_of('LAYER', '{}')} AS call_code"
)
# The groups a stratum belongs to, the nearest first. Time outside operations is not alike in all
# threads: there is no group of (unannotated).
_GROUPS = f"""list_filter([
  [{_OWN}, thread_id, path_id, gpu_code, call_code],
  [{_PATH}, thread_id, path_id, 0, call_code],
  CASE WHEN path_id <> 0 THEN [{_OPERATION}, process_id, operation_id, 0, call_code] END,
  [{_THREAD}, thread_id, 0, 0, call_code],
  [{_PROCESS}, process_id, 0, 0, call_code]
], lambda one: one IS NOT NULL)"""
# Inside a call of the backend only spinning is distinguished: that it is the backend is known.
_ESTIMATE_SQL = f"""
INSERT INTO layer_estimate_coded
  (thread_id, path_id, call_layer, gpu, layer, time_ns, stderr_ns, samples, method)
WITH path AS (
  SELECT path_id, min(path_id) OVER (PARTITION BY name) AS operation_id FROM operation_path
  UNION ALL
  SELECT 0, 0
), owner AS (
  SELECT thread_id, coalesce(process_id, 0) AS process_id FROM thread
), counted AS (
  SELECT
    t.process_id, s.thread_id, s.path_id, p.operation_id, {_CODES.format("s.gpu", "s.call_layer")},
    s.count, s.call_layer,
    CASE WHEN s.call_layer IS NULL OR s.layer = 'spin' THEN s.layer ELSE s.call_layer END AS layer
  FROM sample_count_coded AS s
  JOIN owner AS t ON t.thread_id = s.thread_id
  JOIN path AS p ON p.path_id = s.path_id
  WHERE s.call_layer IS NULL OR s.call_layer = 'backend'
), spinning AS (
  SELECT DISTINCT process_id FROM counted WHERE call_layer IS NOT NULL AND layer = 'spin'
), grouped AS (
  SELECT unnest({_GROUPS}) AS samples_of, layer, count FROM counted
), found AS (
  SELECT samples_of, layer, sum(count)::BIGINT AS n FROM grouped GROUP BY ALL
), drawn AS (
  SELECT samples_of, sum(n)::BIGINT AS n FROM found GROUP BY ALL
), stratum AS (
  SELECT
    t.process_id, o.thread_id, o.path_id, p.operation_id, {_CODES.format("o.gpu", "o.layer")},
    o.time_ns
  FROM thread_overlap_coded AS o
  JOIN owner AS t ON t.thread_id = o.thread_id
  JOIN path AS p ON p.path_id = o.path_id
  WHERE o.state = 'running' AND (
    o.layer IS NULL
    OR o.layer = 'backend' AND t.process_id IN (SELECT process_id FROM spinning)
  )
), candidate AS (
  SELECT thread_id, path_id, call_code, gpu_code, time_ns, unnest({_GROUPS}) AS samples_of
  FROM stratum
), chosen AS (
  SELECT c.thread_id, c.path_id, c.call_code, c.gpu_code, c.time_ns, min((c.samples_of, d.n)) AS of
  FROM candidate AS c JOIN drawn AS d ON d.samples_of = c.samples_of
  GROUP BY ALL
), possible AS (
  -- Also what the thread does elsewhere: that a few samples lack it tells little.
  SELECT c.thread_id, c.path_id, c.call_code, c.gpu_code, f.layer
  FROM chosen AS c JOIN found AS f ON f.samples_of = c.of[1]
  UNION
  SELECT c.thread_id, c.path_id, c.call_code, c.gpu_code, f.layer
  FROM chosen AS c
  JOIN found AS f ON f.samples_of = [{_THREAD}, c.thread_id, 0, 0, c.call_code]
), part AS (
  SELECT
    c.thread_id, c.path_id, c.call_code, c.gpu_code, p.layer, c.time_ns,
    c.of[1][1] AS method, c.of[2] AS n, coalesce(f.n, 0) AS hits
  FROM chosen AS c
  JOIN possible AS p USING (thread_id, path_id, call_code, gpu_code)
  LEFT JOIN found AS f ON f.samples_of = c.of[1] AND f.layer IS NOT DISTINCT FROM p.layer
), rounded AS (
  SELECT
    *, time_ns::HUGEINT * hits // n AS floor_ns, time_ns::HUGEINT * hits % n AS remainder,
    hits / n AS share, (hits + 2) / (n + 4) AS adjusted
  FROM part
), ranked AS (
  -- Largest remainder: the parts add up to the time.
  SELECT
    *,
    time_ns - sum(floor_ns) OVER stratum AS missing_ns,
    row_number() OVER (stratum ORDER BY remainder DESC, layer NULLS FIRST) AS place
  FROM rounded
  WINDOW stratum AS (PARTITION BY thread_id, path_id, call_code, gpu_code)
)
SELECT
  thread_id, path_id, {word_of("LAYER", "call_code")},
  nullif(gpu_code, {NOT_MEASURED})::BOOLEAN, layer,
  (floor_ns + CASE WHEN place <= missing_ns THEN 1 ELSE 0 END)::BIGINT,
  time_ns * sqrt(adjusted * (1 - adjusted) / (n + 4) + pow(share - adjusted, 2)),
  n, {word_of("ESTIMATE_METHOD", "method")}
FROM ranked
ORDER BY thread_id, path_id, call_code, gpu_code, layer NULLS FIRST
"""  # noqa: S608 - numbers of our own


def store(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill layer_estimate_coded from the derived tables of the connection."""
    ((has_samples,),) = connection.execute("SELECT EXISTS (FROM sample_count_coded)").fetchall()
    if has_samples:
        connection.execute(_ESTIMATE_SQL)
