-- Which processes worked at once, on a CPU or on a GPU.
SELECT
  len(process_ids) AS processes,
  coalesce(array_to_string(process_ids, ' + '), '(all other sets)') AS process_ids,
  time_ns,
  time_ns / nullif(sum(time_ns) OVER (), 0) AS share,
  count
FROM process_overlap
ORDER BY len(process_ids) IS NULL, time_ns DESC, 2
