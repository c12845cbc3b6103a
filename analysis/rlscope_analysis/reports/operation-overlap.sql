-- Which operations were innermost at once, over all threads and processes.
SELECT
  coalesce(array_to_string(operations, ' + '), '(more sets, each shorter)') AS operations,
  time_ns,
  time_ns / nullif(sum(time_ns) OVER (), 0) AS share,
  count
FROM operation_overlap
ORDER BY operations IS NULL, time_ns DESC, 1
