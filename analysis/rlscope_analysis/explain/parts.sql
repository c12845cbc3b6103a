-- What an iteration spent its time on, beside the mean of the typical ones: those whose duration is in
-- the middle half. {iteration_id} is the iteration.
WITH typical AS (
  SELECT iteration_id FROM _steady_iteration
  WHERE time_ns BETWEEN (SELECT quantile_disc(time_ns, 0.25) FROM _steady_iteration)
    AND (SELECT quantile_disc(time_ns, 0.75) FROM _steady_iteration)
), part AS (
  SELECT
    process_id, device_id, operation, cause,
    coalesce(sum(duration_ns) FILTER (WHERE iteration_id = {iteration_id}), 0) AS time_ns,
    coalesce(sum(duration_ns) FILTER (WHERE iteration_id IN (FROM typical)), 0)
      / (SELECT count(*) FROM typical) AS typical_ns
  FROM critical_path
  WHERE iteration_id = {iteration_id} OR iteration_id IN (FROM typical)
  GROUP BY ALL
)
SELECT
  q.process_id, q.pid, q.name AS process, p.device_id,
  p.operation, p.cause,
  p.time_ns::BIGINT AS time_ns,
  p.time_ns / nullif(sum(p.time_ns) OVER (), 0) AS share,
  p.typical_ns, p.time_ns - p.typical_ns AS difference_ns
FROM part AS p LEFT JOIN process AS q ON q.process_id = p.process_id
ORDER BY greatest(p.time_ns, p.typical_ns) DESC, q.process_id, p.operation, p.cause
