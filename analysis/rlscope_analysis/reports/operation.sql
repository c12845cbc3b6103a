-- Operations of each process. Scope operation: a row for each; scope path: the tree they make up.
-- Each scope holds all of the time: choose one, do not add them.
WITH RECURSIVE node AS (
  SELECT
    n.path_id, n.parent_node_id AS parent_path_id, n.operation_id,
    CASE WHEN n.path_id = 0 THEN '(unannotated)' ELSE p.name END AS name,
    p.domain, p.category, p.source, coalesce(p.depth, 0) AS depth
  FROM _operation_node AS n LEFT JOIN operation_path AS p ON p.path_id = n.path_id
  WHERE n.path_id = n.node_id
), lineage AS (
  SELECT path_id, path_id AS ancestor_id FROM node
  UNION ALL
  SELECT l.path_id, n.parent_path_id
  FROM lineage AS l JOIN node AS n ON n.path_id = l.ancestor_id
  WHERE n.parent_path_id IS NOT NULL
), recursive AS (
  -- Paths that lie inside another instance of the same operation: their time is in that one's.
  SELECT DISTINCT n.path_id
  FROM lineage AS l
  JOIN node AS n ON n.path_id = l.path_id
  JOIN node AS a ON a.path_id = l.ancestor_id
  WHERE a.path_id <> n.path_id AND a.operation_id = n.operation_id
), annotated AS (
  SELECT thread_id, process_id
  FROM thread
  WHERE thread_id IN (SELECT thread_id FROM operation_coded)
), instance AS (
  SELECT
    a.process_id, n.path_id, n.operation_id, r.path_id IS NULL AS is_outermost,
    o.end_ns - o.start_ns AS time_ns
  FROM operation_coded AS o
  JOIN annotated AS a ON a.thread_id = o.thread_id
  JOIN _operation_node AS m ON m.path_id = o.path_id
  JOIN node AS n ON n.path_id = m.node_id
  LEFT JOIN recursive AS r ON r.path_id = n.path_id
  -- Time that lacks its operations is no instance of one.
  WHERE n.source IS DISTINCT FROM 'lost'
), occurred AS (
  SELECT
    CASE WHEN grouping(path_id) = 0 THEN 'path' ELSE 'operation' END AS scope,
    process_id, coalesce(path_id, operation_id) AS key,
    count(*) AS instances,
    (CASE WHEN grouping(path_id) = 0 THEN sum(time_ns) ELSE sum(time_ns) FILTER (WHERE is_outermost) END)::BIGINT AS total_ns,
    sum(time_ns) / count(*) AS mean_ns,
    quantile_disc(time_ns, [0.5, 0.99]) AS quantiles
  FROM instance
  GROUP BY GROUPING SETS ((process_id, path_id), (process_id, operation_id))
), own AS (
  SELECT
    a.process_id, m.node_id AS path_id,
    sum(o.time_ns) AS self_ns,
    coalesce(sum(o.time_ns) FILTER (WHERE o.state = 'running'), 0) AS running_ns,
    coalesce(sum(o.time_ns) FILTER (WHERE o.state = 'runnable'), 0) AS runnable_ns,
    coalesce(sum(o.time_ns) FILTER (WHERE o.state IN ('sleeping', 'blocked')), 0) AS off_cpu_ns,
    coalesce(sum(o.time_ns) FILTER (WHERE o.state = 'lost'), 0) AS lost_ns,
    coalesce(sum(o.time_ns) FILTER (WHERE o.gpu), 0) AS gpu_busy_ns,
    bool_and(o.state IS NOT NULL) AS has_states,
    bool_and(o.gpu IS NOT NULL) AS has_gpu
  FROM thread_overlap_coded AS o
  JOIN annotated AS a ON a.thread_id = o.thread_id
  JOIN _operation_node AS m ON m.path_id = o.path_id
  GROUP BY a.process_id, m.node_id
), measured AS (
  SELECT process_id, bool_and(has_states) AS has_states, bool_and(has_gpu) AS has_gpu
  FROM own GROUP BY process_id
), place AS (
  -- To which rows the time of a path belongs: to its own as self, to those around it as total.
  SELECT 'path' AS scope, ancestor_id AS key, path_id, ancestor_id = path_id AS is_self
  FROM lineage
  UNION ALL
  SELECT 'operation', a.operation_id, l.path_id, bool_or(a.path_id = l.path_id)
  FROM lineage AS l JOIN node AS a ON a.path_id = l.ancestor_id
  GROUP BY a.operation_id, l.path_id
), spent AS (
  SELECT
    p.scope, o.process_id, p.key,
    sum(o.self_ns)::BIGINT AS total_ns,
    sum(o.running_ns)::BIGINT AS total_running_ns,
    sum(o.runnable_ns)::BIGINT AS total_runnable_ns,
    sum(o.off_cpu_ns)::BIGINT AS total_off_cpu_ns,
    sum(o.lost_ns)::BIGINT AS total_lost_ns,
    sum(o.self_ns) FILTER (WHERE p.is_self)::BIGINT AS self_ns,
    sum(o.running_ns) FILTER (WHERE p.is_self)::BIGINT AS self_running_ns,
    sum(o.runnable_ns) FILTER (WHERE p.is_self)::BIGINT AS self_runnable_ns,
    sum(o.off_cpu_ns) FILTER (WHERE p.is_self)::BIGINT AS self_off_cpu_ns,
    sum(o.lost_ns) FILTER (WHERE p.is_self)::BIGINT AS self_lost_ns,
    sum(o.gpu_busy_ns) FILTER (WHERE p.is_self)::BIGINT AS self_gpu_busy_ns
  FROM place AS p JOIN own AS o ON o.path_id = p.path_id
  GROUP BY p.scope, o.process_id, p.key
), line AS (
  SELECT
    coalesce(i.scope, s.scope) AS scope,
    coalesce(i.process_id, s.process_id) AS process_id,
    coalesce(i.key, s.key) AS key,
    i.instances, i.mean_ns, i.quantiles,
    -- Of (unannotated) and (lost) there are no instances.
    CASE
      WHEN i.key IS NULL AND (s.key = 0 OR s.key IN (SELECT path_id FROM operation_path WHERE source = 'lost')) THEN s.total_ns
      ELSE i.total_ns
    END AS total_ns,
    coalesce(s.total_ns, 0) AS spent_ns,
    s.* EXCLUDE (scope, process_id, key, total_ns)
  FROM occurred AS i
  FULL JOIN spent AS s
    ON s.scope = i.scope AND s.process_id IS NOT DISTINCT FROM i.process_id AND s.key = i.key
), known AS (
  -- Where operations end out of order, some time lies inside one that has ended: the parts of its
  -- total are not known then.
  SELECT l.*, m.process_id IS NOT NULL AS is_swept, m.has_states, m.has_gpu,
    m.has_states AND l.spent_ns = l.total_ns AS has_parts
  FROM line AS l LEFT JOIN measured AS m ON m.process_id IS NOT DISTINCT FROM l.process_id
)
SELECT
  k.scope, k.process_id,
  n.name AS operation, n.domain, n.category, n.source,
  CASE WHEN k.scope = 'path' THEN k.key END AS path_id,
  CASE WHEN k.scope = 'path' THEN n.parent_path_id END AS parent_path_id,
  CASE WHEN k.scope = 'path' THEN n.depth END AS depth,
  k.instances, k.total_ns,
  CASE WHEN k.has_parts THEN coalesce(k.total_running_ns, 0) END AS total_running_ns,
  CASE WHEN k.has_parts THEN coalesce(k.total_runnable_ns, 0) END AS total_runnable_ns,
  CASE WHEN k.has_parts THEN coalesce(k.total_off_cpu_ns, 0) END AS total_off_cpu_ns,
  CASE WHEN k.has_parts THEN coalesce(k.total_lost_ns, 0) END AS total_lost_ns,
  CASE WHEN k.is_swept THEN coalesce(k.self_ns, 0) END AS self_ns,
  CASE WHEN k.has_states THEN coalesce(k.self_running_ns, 0) END AS self_running_ns,
  CASE WHEN k.has_states THEN coalesce(k.self_runnable_ns, 0) END AS self_runnable_ns,
  CASE WHEN k.has_states THEN coalesce(k.self_off_cpu_ns, 0) END AS self_off_cpu_ns,
  CASE WHEN k.has_states THEN coalesce(k.self_lost_ns, 0) END AS self_lost_ns,
  CASE WHEN k.has_gpu THEN coalesce(k.self_gpu_busy_ns, 0) END AS self_gpu_busy_ns,
  k.mean_ns, k.quantiles[1] AS p50_ns, k.quantiles[2] AS p99_ns
FROM known AS k JOIN node AS n ON n.path_id = k.key
ORDER BY k.scope, k.process_id, k.key = 0, self_ns DESC NULLS LAST, k.key
