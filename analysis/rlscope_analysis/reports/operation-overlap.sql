-- Which operations were innermost at once, over all threads and processes.
SELECT
  coalesce(array_to_string(operations, ' + '), '(all other sets)') AS operations,
  time_ns,
  time_ns / nullif(sum(time_ns) OVER (), 0) AS share,
  count
FROM operation_overlap
ORDER BY len(operation_overlap.operations) IS NULL, time_ns DESC, 1
