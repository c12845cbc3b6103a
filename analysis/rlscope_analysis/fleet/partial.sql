-- What a partial holds of one trace. Groups of processes and operations beyond the longest are added up, so that
-- a partial stays small whatever the trace holds; all rows of a kind still add up to what the trace has.
WITH named AS (
  SELECT
    p.process_id,
    CASE
      WHEN coalesce(m.learns, false) THEN 'learner'
      WHEN p.process_id IN (SELECT process_id FROM iteration) THEN 'main'
      WHEN coalesce(m.simulates, false) THEN 'worker'
      ELSE 'other'
    END AS role,
    -- Workers of one kind differ in a number; actors of Ray are called by class and method.
    left(CASE
      WHEN p.title LIKE 'ray::%' THEN regexp_extract(p.title, '^ray::[^.( ]*')
      ELSE regexp_replace(coalesce(p.python_name, p.name, '(no name)'), '[0-9]+$', '*')
    END, 80) AS name
  FROM process AS p LEFT JOIN _marked_process AS m ON m.process_id = p.process_id
), piece AS (
  SELECT
    coalesce(n.role, 'other') AS role, coalesce(n.name, '(no name)') AS name,
    left(coalesce(b.operation, '(no name)'), 80) AS operation,
    b.bucket, b.gpu_busy, b.time_ns, b.count, b.sampled_ns, b.own_variance, b.borrowed_stderr_ns
  FROM _bucket_part AS b LEFT JOIN named AS n ON n.process_id = b.process_id
  WHERE b.time_ns > 0
), long AS (
  SELECT 'process' AS kind, role, name, * EXCLUDE (role, name, operation) FROM piece
  UNION ALL
  SELECT 'operation', NULL, operation, * EXCLUDE (role, name, operation) FROM piece
), placed AS (
  SELECT kind, role, name, row_number() OVER (PARTITION BY kind ORDER BY sum(time_ns) DESC, role, name) AS place
  FROM long GROUP BY kind, role, name
), grouped AS (
  SELECT
    l.kind,
    CASE WHEN p.place <= $groups THEN l.role WHEN l.kind = 'process' THEN 'other' END AS role,
    CASE WHEN p.place <= $groups THEN l.name ELSE '(others)' END AS name,
    l.* EXCLUDE (kind, role, name)
  FROM long AS l
  JOIN placed AS p ON p.kind = l.kind AND p.role IS NOT DISTINCT FROM l.role AND p.name = l.name
), waited AS (
  -- For other members of the job, as far as that is known.
  SELECT
    iteration_id,
    coalesce(sum(time_ns) FILTER (WHERE code IN ('collective_wait', 'network_wait', 'outside_wait')), 0) AS time_ns
  FROM limit_time GROUP BY iteration_id
), held AS (
  SELECT iteration_id, code, sum(time_ns)::BIGINT AS time_ns FROM limit_time
  GROUP BY ALL HAVING sum(time_ns) > 0
), counted AS (
  -- Whole iterations, the first, as many as there is room for.
  SELECT iteration_id, sum(count(*)) OVER (ORDER BY iteration_id) AS rows FROM held GROUP BY iteration_id
)
SELECT
  kind, role, name, bucket, NULL::BIGINT AS number, NULL::BIGINT AS at_ns,
  sum(time_ns)::BIGINT AS time_ns,
  CASE WHEN bool_and(gpu_busy IS NOT NULL) THEN coalesce(sum(time_ns) FILTER (WHERE gpu_busy), 0)::BIGINT END AS part_ns,
  CASE WHEN sum(sampled_ns) = 0 THEN sum(count)::BIGINT END AS count,
  sum(sampled_ns)::BIGINT AS sampled_ns,
  round(sqrt(sum(own_variance) + pow(sum(borrowed_stderr_ns), 2)))::BIGINT AS stderr_ns
FROM grouped GROUP BY kind, role, name, bucket
UNION ALL
SELECT 'cause', NULL, cause, NULL, NULL, NULL, sum(duration_ns)::BIGINT, NULL, count(*), 0, 0
FROM critical_path GROUP BY cause
UNION ALL
SELECT 'limit', NULL, code, NULL, NULL, NULL, sum(time_ns)::BIGINT, NULL, count(DISTINCT iteration_id), 0, 0
FROM limit_time GROUP BY code
UNION ALL
SELECT DISTINCT 'finding', NULL, code, NULL, NULL, NULL, NULL::BIGINT, NULL, 1, 0, 0 FROM finding
UNION ALL
SELECT
  'run_queue', NULL, NULL, NULL, floor(log2(end_ns - start_ns) * $steps)::BIGINT AS step, NULL,
  sum(end_ns - start_ns)::BIGINT, NULL, count(*), 0, 0
FROM thread_state_coded WHERE state = 'runnable' AND end_ns > start_ns GROUP BY step
UNION ALL
SELECT
  'iteration_time', NULL, NULL, NULL, floor(log2(end_ns - start_ns) * $steps)::BIGINT AS step, NULL,
  sum(end_ns - start_ns)::BIGINT, NULL, count(*), 0, 0
FROM iteration WHERE end_ns > start_ns GROUP BY step
UNION ALL
SELECT
  'iteration', NULL, NULL, NULL, i.iteration_id, i.start_ns, i.end_ns - i.start_ns, w.time_ns::BIGINT, NULL, 0, 0
FROM iteration AS i LEFT JOIN waited AS w ON w.iteration_id = i.iteration_id
WHERE i.iteration_id <= $iterations
UNION ALL
SELECT 'iteration_limit', NULL, h.code, NULL, h.iteration_id, NULL, h.time_ns, NULL, NULL, 0, 0
FROM held AS h JOIN counted AS c ON c.iteration_id = h.iteration_id
WHERE c.rows <= $limits AND h.iteration_id <= $iterations
UNION ALL
(
  -- For other members, as far as that is known: the longest.
  SELECT
    'iteration_wait', NULL, code, NULL, iteration_id, start_ns, duration_ns, NULL, NULL, 0, 0
  FROM limit_piece
  WHERE code IN ('network_wait', 'outside_wait') AND iteration_id <= $iterations
    AND iteration_id IN (SELECT iteration_id FROM _steady_iteration)
  ORDER BY duration_ns DESC, start_ns LIMIT $waits
)
UNION ALL
SELECT 'task', NULL, left(name, 80), NULL, number, start_ns, end_ns - start_ns, NULL, NULL, 0, 0 FROM _task
UNION ALL
SELECT 'task_limit', NULL, code, NULL, number, NULL, time_ns, NULL, NULL, 0, 0 FROM _task_part WHERE time_ns > 0
ORDER BY ALL
