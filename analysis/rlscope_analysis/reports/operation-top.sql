-- The outermost operations of the annotated threads, with everything inside them.
WITH RECURSIVE rooted AS (
  SELECT path_id, path_id AS root_id FROM operation_path WHERE parent_path_id IS NULL
  UNION ALL
  SELECT c.path_id, r.root_id
  FROM operation_path AS c JOIN rooted AS r ON r.path_id = c.parent_path_id
), spent AS (
  SELECT
    CASE WHEN o.path_id = 0 THEN '(unannotated)' ELSE p.name END AS operation,
    p.source, o.path_id = 0 AS is_outside,
    sum(o.time_ns)::BIGINT AS time_ns,
    sum(o.time_ns) FILTER (WHERE o.state = 'running')::BIGINT AS running_ns,
    sum(o.time_ns) FILTER (WHERE o.state = 'runnable')::BIGINT AS runnable_ns,
    sum(o.time_ns) FILTER (WHERE o.state IN ('sleeping', 'blocked'))::BIGINT AS off_cpu_ns,
    bool_and(o.state IS NOT NULL) AS has_states
  FROM thread_overlap_coded AS o
  LEFT JOIN rooted AS r ON r.path_id = o.path_id
  LEFT JOIN operation_path AS p ON p.path_id = r.root_id
  WHERE o.thread_id IN (SELECT thread_id FROM operation_coded)
  GROUP BY 1, 2, 3
)
SELECT
  operation, source, time_ns,
  time_ns / nullif(sum(time_ns) OVER (), 0) AS share,
  CASE WHEN has_states THEN coalesce(running_ns, 0) END AS running_ns,
  CASE WHEN has_states THEN coalesce(runnable_ns, 0) END AS runnable_ns,
  CASE WHEN has_states THEN coalesce(off_cpu_ns, 0) END AS off_cpu_ns
FROM spent
ORDER BY is_outside, time_ns DESC, operation, source
