-- What threads waited for while they were off the CPU.
SELECT
  operation, wait, layer AS inside, state,
  sum(time_ns)::BIGINT AS time_ns,
  sum(time_ns) / nullif(sum(sum(time_ns)) OVER (), 0) AS share,
  sum(count)::BIGINT AS count
FROM blocked_on
GROUP BY 1, 2, 3, 4
-- Ties in the order of the words that people see.
ORDER BY
  time_ns DESC, operation, coalesce(wait, 'not known'), inside NULLS FIRST, coalesce(state, 'not measured')
