-- The iteration that is meant: by number, or the one nearest to a quantile of the durations. Exactly one
-- of {number} and {quantile} is not NULL.
WITH aimed AS (
  SELECT quantile_disc(time_ns, {quantile}) AS time_ns FROM _steady_iteration
), nearest AS (
  SELECT arg_min(c.iteration_id, (abs(c.time_ns - a.time_ns), c.iteration_id)) AS iteration_id
  FROM _steady_iteration AS c CROSS JOIN aimed AS a
)
SELECT
  iteration_id, source, name, end_ns - start_ns AS duration_ns,
  (SELECT count(*) FROM iteration) AS iterations,
  (SELECT quantile_disc(time_ns, 0.5) FROM _steady_iteration) AS median_ns,
  (
    SELECT end_ns - start_ns FROM iteration
    WHERE is_first AND iteration_id NOT IN (SELECT iteration_id FROM _steady_iteration)
  ) AS first_ns
FROM iteration
WHERE iteration_id = coalesce({number}, (SELECT iteration_id FROM nearest))
