-- What limits the iterations: every instant of them under one heading, with the interval in which the
-- share lies that many more such iterations would have.
WITH lead AS (
  SELECT DISTINCT process_id FROM iteration
), acting AS (
  -- Workers that simulate: what the leading process does in its own simulation is talking to them.
  SELECT count(*) > 0 AS is_elsewhere
  FROM operation_coded AS o
  JOIN operation_path AS n ON n.path_id = o.path_id
  JOIN thread AS t ON t.thread_id = o.thread_id
  WHERE n.name = 'simulation' AND t.process_id NOT IN (SELECT process_id FROM lead)
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
      WHEN c.cause = 'cpu_wait' THEN 'cpu_wait'
      WHEN c.cause = 'timer' THEN 'timer_sleep'
      WHEN c.cause = 'disk' THEN 'blocking_io'
      WHEN c.cause = 'lock' THEN 'lock_contention'
      WHEN c.cause IN ('gpu', 'gpu_queue', 'gpu_wait') THEN 'gpu_bound'
      WHEN c.cause IN ('launch_latency', 'sync') OR c.layer = 'cuda_api' THEN 'cuda_calls'
      WHEN c.cause = 'lost' THEN 'lost'
      WHEN c.cause NOT IN ('running', 'not_measured') THEN 'other_wait'
      WHEN c.operation = 'simulation' AND c.process_id IN (SELECT process_id FROM lead) THEN
        CASE WHEN a.is_elsewhere THEN 'message_overhead' ELSE 'simulation' END
      WHEN c.operation IN ('simulation', 'inference', 'backpropagation', 'data') THEN c.operation
      WHEN c.process_id NOT IN (SELECT process_id FROM lead) AND a.is_elsewhere THEN 'message_overhead'
      ELSE 'other_code'
    END AS heading
  FROM critical_path AS c CROSS JOIN acting AS a
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
  CASE WHEN e.error IS NOT NULL THEN greatest(0, t.time_ns / w.time_ns - 1.96 * e.error) END AS low_share,
  CASE WHEN e.error IS NOT NULL THEN least(1, t.time_ns / w.time_ns + 1.96 * e.error) END AS high_share,
  t.time_ns / w.iterations AS per_iteration_ns,
  p.name AS mostly_in, p.pid,
  {'code': t.heading} AS what
FROM total AS t
CROSS JOIN whole AS w
JOIN spread AS e ON e.heading = t.heading
LEFT JOIN process AS p ON p.process_id = t.process_id
ORDER BY t.time_ns DESC, t.heading
