-- How often the operations of each process entered another layer: NULL where that is not known.
WITH annotated AS (
  SELECT thread_id, process_id, start_ns
  FROM thread WHERE thread_id IN (SELECT thread_id FROM operation_coded)
), held AS (
  SELECT DISTINCT a.process_id, o.path_id
  FROM thread_overlap_coded AS o JOIN annotated AS a ON a.thread_id = o.thread_id
  UNION
  SELECT a.process_id, o.path_id
  FROM operation_coded AS o JOIN annotated AS a ON a.thread_id = o.thread_id
), begun AS (
  -- Since when each was there. Time outside operations begins with the thread.
  SELECT a.process_id, o.path_id, min(o.start_ns) AS start_ns
  FROM operation_coded AS o JOIN annotated AS a ON a.thread_id = o.thread_id
  GROUP BY ALL
  UNION ALL
  SELECT process_id, 0, min(start_ns) FROM annotated GROUP BY process_id
), entered AS (
  SELECT a.process_id, c.path_id, c.to_layer, sum(c.count) AS count
  FROM transition_coded AS c JOIN annotated AS a ON a.thread_id = c.thread_id
  GROUP BY ALL
), counted AS (
  SELECT
    h.process_id, p.node_id AS path_id, p.operation_id, min(b.start_ns) AS start_ns,
    coalesce(sum(e.count) FILTER (WHERE e.to_layer = 'simulator'), 0)::BIGINT AS simulator,
    coalesce(sum(e.count) FILTER (WHERE e.to_layer = 'backend'), 0)::BIGINT AS backend,
    coalesce(sum(e.count) FILTER (WHERE e.to_layer = 'cuda_api'), 0)::BIGINT AS cuda_api
  FROM held AS h
  JOIN _operation_node AS p ON p.path_id = h.path_id
  LEFT JOIN begun AS b ON b.process_id IS NOT DISTINCT FROM h.process_id AND b.path_id = h.path_id
  LEFT JOIN entered AS e ON e.process_id IS NOT DISTINCT FROM h.process_id AND e.path_id = h.path_id
  GROUP BY ALL
), scoped AS (
  SELECT 'path' AS scope, process_id, path_id AS key, start_ns, simulator, backend, cuda_api
  FROM counted
  UNION ALL
  SELECT
    'operation', process_id, operation_id, min(start_ns),
    sum(simulator)::BIGINT, sum(backend)::BIGINT, sum(cuda_api)::BIGINT
  FROM counted GROUP BY process_id, operation_id
), gap AS (
  -- Until when calls are missing.
  SELECT
    process_id,
    max(until_ns) FILTER (WHERE layer = 'simulator') AS simulator,
    max(until_ns) FILTER (WHERE layer = 'backend') AS backend,
    max(until_ns) FILTER (WHERE layer = 'cuda_api') AS cuda_api
  FROM (
    SELECT process_id, layer, CASE WHEN reason IS NULL THEN since_ns ELSE 9223372036854775807 END AS until_ns
    FROM _layer_gap
  )
  GROUP BY process_id
)
SELECT
  s.scope, s.process_id,
  CASE WHEN s.key = 0 THEN '(unannotated)' ELSE n.name END AS operation,
  n.domain, n.category, n.source,
  CASE WHEN s.scope = 'path' THEN s.key END AS path_id,
  CASE WHEN coalesce(s.start_ns < g.simulator, FALSE) THEN NULL ELSE s.simulator END AS to_simulator,
  CASE WHEN coalesce(s.start_ns < g.backend, FALSE) THEN NULL ELSE s.backend END AS to_backend,
  CASE WHEN coalesce(s.start_ns < g.cuda_api, FALSE) THEN NULL ELSE s.cuda_api END AS to_cuda_api
FROM scoped AS s
LEFT JOIN operation_path AS n ON n.path_id = s.key
LEFT JOIN gap AS g ON g.process_id IS NOT DISTINCT FROM s.process_id
