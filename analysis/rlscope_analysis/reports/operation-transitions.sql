-- How often the operations of each process entered another layer: NULL where that is not known.
WITH annotated AS (
  SELECT thread_id, process_id FROM thread WHERE thread_id IN (SELECT thread_id FROM operation_coded)
), place AS (
  -- Names alone do not tell apart what is of another source, domain or category.
  SELECT
    path_id, min(path_id) OVER (PARTITION BY name, domain, category, source) AS operation_id
  FROM operation_path
  UNION ALL
  SELECT 0, 0
), held AS (
  SELECT DISTINCT a.process_id, o.path_id
  FROM thread_overlap_coded AS o JOIN annotated AS a ON a.thread_id = o.thread_id
  UNION
  SELECT a.process_id, o.path_id
  FROM operation_coded AS o JOIN annotated AS a ON a.thread_id = o.thread_id
), entered AS (
  SELECT a.process_id, c.path_id, c.to_layer, sum(c.count) AS count
  FROM transition_coded AS c JOIN annotated AS a ON a.thread_id = c.thread_id
  GROUP BY ALL
), counted AS (
  SELECT
    h.process_id, h.path_id, p.operation_id,
    coalesce(sum(e.count) FILTER (WHERE e.to_layer = 2), 0)::BIGINT AS simulator,
    coalesce(sum(e.count) FILTER (WHERE e.to_layer = 3), 0)::BIGINT AS backend,
    coalesce(sum(e.count) FILTER (WHERE e.to_layer = 4), 0)::BIGINT AS cuda_api
  FROM held AS h
  JOIN place AS p ON p.path_id = h.path_id
  LEFT JOIN entered AS e ON e.process_id IS NOT DISTINCT FROM h.process_id AND e.path_id = h.path_id
  GROUP BY ALL
), scoped AS (
  SELECT 'path' AS scope, process_id, path_id AS key, simulator, backend, cuda_api FROM counted
  UNION ALL
  SELECT
    'operation', process_id, operation_id,
    sum(simulator)::BIGINT, sum(backend)::BIGINT, sum(cuda_api)::BIGINT
  FROM counted GROUP BY process_id, operation_id
), gap AS (
  SELECT
    process_id,
    bool_or(layer = 'simulator') AS simulator,
    bool_or(layer = 'backend') AS backend,
    bool_or(layer = 'cuda_api') AS cuda_api
  FROM _layer_gap WHERE reason IS NOT NULL GROUP BY process_id
)
SELECT
  s.scope, s.process_id,
  CASE WHEN s.key = 0 THEN '(unannotated)' ELSE coalesce(n.name, '(no name)') END AS operation,
  n.domain, n.category, n.source,
  CASE WHEN s.scope = 'path' THEN s.key END AS path_id,
  CASE WHEN coalesce(g.simulator, FALSE) THEN NULL ELSE s.simulator END AS to_simulator,
  CASE WHEN coalesce(g.backend, FALSE) THEN NULL ELSE s.backend END AS to_backend,
  CASE WHEN coalesce(g.cuda_api, FALSE) THEN NULL ELSE s.cuda_api END AS to_cuda_api
FROM scoped AS s
LEFT JOIN operation_path AS n ON n.path_id = s.key
LEFT JOIN gap AS g ON g.process_id IS NOT DISTINCT FROM s.process_id
