-- Which processes worked at once, on a CPU or on a GPU.
SELECT
  len(process_ids) AS processes,
  process_ids,
  time_ns,
  time_ns / nullif(sum(time_ns) OVER (), 0) AS share,
  count
FROM process_overlap
ORDER BY process_ids IS NULL, time_ns DESC, array_to_string(process_ids, ' + ')
