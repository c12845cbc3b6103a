-- The operations of each process as a tree, over all its threads.
WITH RECURSIVE named AS (
  -- Names alone do not tell apart what is of another source, domain or category.
  SELECT path_id, name, source, depth, [{'name': name, 'path_id': path_id}] AS path
  FROM operation_path WHERE parent_path_id IS NULL
  UNION ALL
  SELECT c.path_id, c.name, c.source, c.depth, list_append(p.path, {'name': c.name, 'path_id': c.path_id})
  FROM operation_path AS c JOIN named AS p ON p.path_id = c.parent_path_id
), instance AS (
  SELECT
    t.process_id, o.path_id,
    count(*) AS instances,
    sum(o.end_ns - o.start_ns)::BIGINT AS total_ns,
    sum(o.end_ns - o.start_ns) / count(*) AS mean_ns,
    quantile_disc(o.end_ns - o.start_ns, 0.5) AS p50_ns,
    quantile_disc(o.end_ns - o.start_ns, 0.99) AS p99_ns
  FROM operation_coded AS o JOIN thread AS t ON t.thread_id = o.thread_id
  GROUP BY t.process_id, o.path_id
), self AS (
  SELECT
    process_id, path_id,
    sum(self_ns)::BIGINT AS self_ns,
    -- A sum leaves out what is NULL: one thread that was not measured, and the sum is not known.
    CASE WHEN count(*) = count(self_running_ns) THEN sum(self_running_ns)::BIGINT END AS running_ns,
    CASE WHEN count(*) = count(self_runnable_ns) THEN sum(self_runnable_ns)::BIGINT END AS runnable_ns,
    CASE WHEN count(*) = count(self_waiting_ns) THEN sum(self_waiting_ns)::BIGINT END AS waiting_ns,
    CASE WHEN count(*) = count(self_gpu_busy_ns) THEN sum(self_gpu_busy_ns)::BIGINT END AS gpu_busy_ns
  FROM operation_tree
  GROUP BY process_id, path_id
)
SELECT
  s.process_id,
  CASE WHEN s.path_id = 0 THEN '(unannotated)' ELSE repeat('  ', n.depth) || n.name END AS operation,
  n.source, i.instances, i.total_ns, s.self_ns,
  s.running_ns, s.runnable_ns, s.waiting_ns, s.gpu_busy_ns,
  i.mean_ns, i.p50_ns, i.p99_ns
FROM self AS s
LEFT JOIN instance AS i ON i.process_id IS NOT DISTINCT FROM s.process_id AND i.path_id = s.path_id
LEFT JOIN named AS n ON n.path_id = s.path_id
ORDER BY s.process_id, s.path_id = 0, n.path
