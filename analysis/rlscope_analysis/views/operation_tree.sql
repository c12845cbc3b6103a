-- Operations as a tree: for each thread and each stack of operations, how often and for how long.
CREATE OR REPLACE VIEW operation_tree AS
WITH RECURSIVE named AS (
  SELECT path_id, parent_path_id, name, domain, category, source, depth, framework_name, [name] AS path
  FROM operation_path
  WHERE parent_path_id IS NULL
  UNION ALL
  SELECT c.path_id, c.parent_path_id, c.name, c.domain, c.category, c.source, c.depth, c.framework_name, list_append(p.path, c.name)
  FROM operation_path AS c JOIN named AS p ON p.path_id = c.parent_path_id
), instance AS (
  SELECT
    thread_id, path_id,
    count(*) AS instances,
    sum(end_ns - start_ns)::BIGINT AS total_ns,
    quantile_disc(end_ns - start_ns, 0.5) AS p50_ns,
    quantile_disc(end_ns - start_ns, 0.99) AS p99_ns,
    max(end_ns - start_ns) AS max_ns
  FROM operation_coded
  WHERE path_id NOT IN (SELECT path_id FROM operation_path WHERE source = 'lost')
  GROUP BY thread_id, path_id
), self AS (
  SELECT
    thread_id, path_id,
    sum(time_ns)::BIGINT AS self_ns,
    sum(time_ns) FILTER (WHERE state = 'running')::BIGINT AS running_ns,
    sum(time_ns) FILTER (WHERE state = 'runnable')::BIGINT AS runnable_ns,
    sum(time_ns) FILTER (WHERE state IN ('sleeping', 'blocked'))::BIGINT AS waiting_ns,
    sum(time_ns) FILTER (WHERE gpu)::BIGINT AS gpu_busy_ns
  FROM thread_overlap_coded
  WHERE thread_id IN (SELECT thread_id FROM operation_coded)
  GROUP BY thread_id, path_id
), swept AS (
  -- Of a thread: an operation that was never the innermost one has no row, and 0 where this is so.
  SELECT
    thread_id,
    bool_and(state IS NOT NULL) AS has_states,
    bool_and(gpu IS NOT NULL) AS has_gpu
  FROM thread_overlap_coded
  GROUP BY thread_id
)
SELECT
  t.process_id, k.thread_id, k.path_id, n.parent_path_id,
  CASE WHEN k.path_id = 0 THEN ['(unannotated)'] ELSE n.path END AS path,
  CASE WHEN k.path_id = 0 THEN '(unannotated)' ELSE n.name END AS name,
  n.domain, n.category, n.source,
  CASE WHEN k.path_id = 0 THEN 0 ELSE n.depth END AS depth,
  i.instances, i.total_ns,
  CASE WHEN w.thread_id IS NOT NULL THEN coalesce(s.self_ns, 0) END AS self_ns,
  CASE WHEN w.has_states THEN coalesce(s.running_ns, 0) END AS self_running_ns,
  CASE WHEN w.has_states THEN coalesce(s.runnable_ns, 0) END AS self_runnable_ns,
  CASE WHEN w.has_states THEN coalesce(s.waiting_ns, 0) END AS self_waiting_ns,
  CASE WHEN w.has_gpu THEN coalesce(s.gpu_busy_ns, 0) END AS self_gpu_busy_ns,
  i.total_ns / i.instances AS mean_ns, i.p50_ns, i.p99_ns, i.max_ns,
  n.framework_name
FROM (SELECT thread_id, path_id FROM instance UNION SELECT thread_id, path_id FROM self) AS k
LEFT JOIN instance AS i ON i.thread_id = k.thread_id AND i.path_id = k.path_id
LEFT JOIN self AS s ON s.thread_id = k.thread_id AND s.path_id = k.path_id
LEFT JOIN swept AS w ON w.thread_id = k.thread_id
LEFT JOIN named AS n ON n.path_id = k.path_id
LEFT JOIN thread AS t ON t.thread_id = k.thread_id;
COMMENT ON VIEW operation_tree IS 'Operations of each annotated thread as a tree; the self times of a thread, (unannotated) included, add up to its lifetime';
COMMENT ON COLUMN operation_tree.process_id IS 'The process of the thread';
COMMENT ON COLUMN operation_tree.thread_id IS 'The thread';
COMMENT ON COLUMN operation_tree.path_id IS 'Key of the stack of operations: operation_path; 0: (unannotated)';
COMMENT ON COLUMN operation_tree.parent_path_id IS 'The row around this one; NULL: it is outermost';
COMMENT ON COLUMN operation_tree.path IS 'Names from the outermost operation to this one';
COMMENT ON COLUMN operation_tree.name IS 'Name of the operation';
COMMENT ON COLUMN operation_tree.domain IS 'NVTX domain; NULL: the default one';
COMMENT ON COLUMN operation_tree.category IS 'NVTX category; NULL: none';
COMMENT ON COLUMN operation_tree.source IS 'Who marked it, as in operation_path';
COMMENT ON COLUMN operation_tree.depth IS 'How many operations are around it';
COMMENT ON COLUMN operation_tree.instances IS 'How often it occurred there; NULL: (unannotated), (lost)';
COMMENT ON COLUMN operation_tree.total_ns IS 'Wall time of all instances, with the operations inside';
COMMENT ON COLUMN operation_tree.self_ns IS 'Wall time while it was the innermost one; NULL: the lifetime of the thread is not known';
COMMENT ON COLUMN operation_tree.self_running_ns IS 'Part of self_ns on a CPU; NULL: not measured';
COMMENT ON COLUMN operation_tree.self_runnable_ns IS 'Part of self_ns waiting for a CPU; NULL: not measured';
COMMENT ON COLUMN operation_tree.self_waiting_ns IS 'Part of self_ns sleeping or blocked; NULL: not measured. What was lost is in none of the three';
COMMENT ON COLUMN operation_tree.self_gpu_busy_ns IS 'Part of self_ns during which a GPU worked for the process; NULL: not measured';
COMMENT ON COLUMN operation_tree.mean_ns IS 'total_ns / instances';
COMMENT ON COLUMN operation_tree.p50_ns IS 'Half of the instances took at most this long';
COMMENT ON COLUMN operation_tree.p99_ns IS '99 of 100 instances took at most this long';
COMMENT ON COLUMN operation_tree.max_ns IS 'The longest instance';
COMMENT ON COLUMN operation_tree.framework_name IS 'What the framework calls a phase that it times itself: each has a row of its own; NULL: of any other';
