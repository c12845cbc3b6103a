-- Gaps in the work of the GPUs, by what the launching thread did when they began.
SELECT
  operation, cause, state,
  count(*) AS gaps,
  sum(duration_ns)::BIGINT AS time_ns,
  sum(duration_ns) / nullif(sum(sum(duration_ns)) OVER (), 0) AS share,
  sum(unlaunched_ns)::BIGINT AS unlaunched_ns,
  quantile_disc(duration_ns, 0.5) AS p50_ns,
  max(duration_ns) AS max_ns
FROM idle_gap
GROUP BY 1, 2, 3
-- Ties in the order of the words that people see.
ORDER BY time_ns DESC, operation NULLS FIRST, coalesce(cause, 'not known'), coalesce(state, 'not known')
