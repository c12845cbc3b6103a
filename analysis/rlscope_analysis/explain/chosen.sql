-- The iteration that is meant: by number, or the one nearest to a quantile of the durations. Exactly one
-- of {number} and {quantile} is not NULL.
WITH candidate AS (
  -- The first is slower in most programs, which is no news.
  SELECT iteration_id, end_ns - start_ns AS time_ns FROM iteration
  WHERE NOT is_first OR (SELECT count(*) FROM iteration) < 3
), aimed AS (
  SELECT quantile_disc(time_ns, {quantile}) AS time_ns FROM candidate
), nearest AS (
  SELECT arg_min(c.iteration_id, (abs(c.time_ns - a.time_ns), c.iteration_id)) AS iteration_id
  FROM candidate AS c CROSS JOIN aimed AS a
)
SELECT
  iteration_id, source, name, end_ns - start_ns AS duration_ns,
  (SELECT count(*) FROM iteration) AS iterations,
  (SELECT quantile_disc(time_ns, 0.5) FROM candidate) AS median_ns
FROM iteration
WHERE iteration_id = coalesce({number}, (SELECT iteration_id FROM nearest))
