-- What threads waited for while they were off the CPU.
SELECT
  operation, coalesce(wait, 'not known') AS wait, coalesce(layer, '-') AS inside,
  coalesce(state, 'not measured') AS state,
  sum(time_ns)::BIGINT AS time_ns,
  sum(time_ns) / nullif(sum(sum(time_ns)) OVER (), 0) AS share,
  sum(count)::BIGINT AS count
FROM blocked_on
GROUP BY 1, 2, 3, 4
ORDER BY time_ns DESC, operation, wait, inside, state
