-- Which operations were innermost at once, over all threads and processes.
SELECT
  operations, time_ns,
  time_ns / nullif(sum(time_ns) OVER (), 0) AS share,
  count
FROM operation_overlap
ORDER BY operations IS NULL, time_ns DESC, array_to_string(operations, ' + ')
