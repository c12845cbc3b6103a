-- What limits the iterations: every instant of them under one heading, with the interval in which the
-- share lies that many more such iterations would have.
WITH lead AS (
  SELECT DISTINCT process_id FROM iteration
), acting AS (
  SELECT o.thread_id, o.start_ns, o.end_ns
  FROM operation_coded AS o JOIN operation_path AS n ON n.path_id = o.path_id
  WHERE n.name = 'simulation'
), worker AS (
  -- Processes that the leading one waits for inside its own simulation: what it does there beside is
  -- talking to them.
  SELECT DISTINCT c.process_id
  FROM critical_path AS c
  ASOF JOIN acting AS a ON a.thread_id = c.waiter_thread_id AND a.start_ns <= c.start_ns
  WHERE c.start_ns < a.end_ns AND c.process_id NOT IN (SELECT process_id FROM lead)
    AND c.waiter_thread_id IN (SELECT thread_id FROM iteration)
), steady AS (
  -- The first is slower in most programs: left out where there are enough others.
  SELECT iteration_id, end_ns - start_ns AS time_ns FROM iteration
  WHERE NOT is_first OR (SELECT count(*) FROM iteration) < 3
), piece AS (
  SELECT
    c.iteration_id, c.process_id, c.duration_ns,
    CASE
      WHEN c.cause = 'gil' THEN 'gil_contention'
      WHEN c.cause = 'cpu_taken' THEN 'cpu_contention'
      WHEN c.cause = 'cpu_taken_by_other' THEN 'cpu_taken_by_others' WHEN c.cause = 'cgroup_quota' THEN 'cgroup_throttled'
      WHEN c.cause = 'cpu_wait' THEN 'cpu_wait'
      WHEN c.cause = 'timer' THEN 'timer_sleep'
      WHEN c.cause = 'disk' THEN 'blocking_io'
      WHEN c.cause = 'lock' THEN 'lock_contention'
      WHEN c.cause IN ('gpu', 'gpu_queue', 'gpu_wait') THEN 'gpu_bound'
      WHEN c.cause IN ('launch_latency', 'sync') OR c.layer = 'cuda_api' THEN 'cuda_calls'
      WHEN c.cause = 'lost' THEN 'lost'
      WHEN c.cause NOT IN ('running', 'not_measured') THEN 'other_wait'
      WHEN c.operation = 'simulation' AND c.process_id IN (SELECT process_id FROM lead)
        AND c.layer IS DISTINCT FROM 'simulator' AND EXISTS (FROM worker) THEN 'message_overhead'
      WHEN c.operation IN ('simulation', 'inference', 'backpropagation', 'data') THEN c.operation
      WHEN c.process_id IN (SELECT process_id FROM worker) THEN 'message_overhead'
      ELSE 'other_code'
    END AS heading
  FROM critical_path AS c
  WHERE c.iteration_id IN (SELECT iteration_id FROM steady)
), held AS (
  SELECT
    iteration_id, heading, sum(duration_ns) AS time_ns,
    arg_max(process_id, (process_ns, -process_id)) AS process_id, max(process_ns) AS process_ns
  FROM (
    SELECT *, sum(duration_ns) OVER (PARTITION BY heading, process_id) AS process_ns FROM piece
  )
  GROUP BY ALL
), whole AS (
  SELECT sum(time_ns) AS time_ns, count(*) AS iterations FROM steady
), total AS (
  SELECT heading, sum(time_ns) AS time_ns, arg_max(process_id, (process_ns, -process_id)) AS process_id
  FROM held GROUP BY heading
), quantile AS (
  -- Of Student's t, for 95 %: by degrees of freedom, from 11 on by its expansion (good to 0.002).
  SELECT CASE
    WHEN iterations <= 11 THEN
      [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228][iterations - 1]
    ELSE 1.96 + 2.3722 / (iterations - 1) + 2.8225 / pow(iterations - 1, 2)
  END AS t
  FROM whole
), spread AS (
  -- How far the share of an iteration is from that of all: the error of a ratio.
  SELECT
    t.heading, sqrt(sum(pow(coalesce(h.time_ns, 0) - t.time_ns / w.time_ns * s.time_ns, 2))
      * w.iterations / nullif(w.iterations - 1, 0)) / w.time_ns AS error
  FROM total AS t CROSS JOIN whole AS w CROSS JOIN steady AS s
  LEFT JOIN held AS h ON h.heading = t.heading AND h.iteration_id = s.iteration_id
  GROUP BY t.heading, w.iterations, w.time_ns
)
SELECT
  t.heading AS code,
  t.time_ns::BIGINT AS time_ns,
  t.time_ns / w.time_ns AS share,
  CASE WHEN e.error IS NOT NULL THEN greatest(0, t.time_ns / w.time_ns - q.t * e.error) END AS low_share,
  CASE WHEN e.error IS NOT NULL THEN least(1, t.time_ns / w.time_ns + q.t * e.error) END AS high_share,
  t.time_ns / w.iterations AS per_iteration_ns,
  p.name AS mostly_in, p.pid,
  {'code': t.heading} AS what
FROM total AS t
CROSS JOIN whole AS w
CROSS JOIN quantile AS q
JOIN spread AS e ON e.heading = t.heading
LEFT JOIN process AS p ON p.process_id = t.process_id
ORDER BY t.time_ns DESC, t.heading
