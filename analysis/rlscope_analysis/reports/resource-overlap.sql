-- Which resources worked for a process at once.
SELECT
  o.process_id, p.pid, o.operation, o.resources,
  o.time_ns,
  o.time_ns / nullif(sum(o.time_ns) OVER (), 0) AS share,
  o.count
FROM resource_overlap AS o LEFT JOIN process AS p ON p.process_id = o.process_id
ORDER BY o.time_ns DESC, o.process_id, o.operation, array_to_string(o.resources, ' + ')
