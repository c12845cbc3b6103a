-- What held the iterations but the first up, by where the path was and what took the time; per iteration as well.
SELECT
  c.process_id, p.pid, p.name AS process, c.device_id,
  c.operation, c.layer, c.cause,
  CASE WHEN c.by_thread_id IS NULL THEN c.by_program ELSE b.name END AS cpu_had_by, coalesce(b.pid, c.by_program_pid) AS by_pid,
  CASE WHEN c.by_thread_id IS NOT NULL THEN 'process' WHEN c.by_program IS NOT NULL THEN 'program' END AS by_kind,
  c.code AS counts_for,
  sum(c.duration_ns)::BIGINT AS time_ns,
  sum(c.duration_ns) / nullif(sum(sum(c.duration_ns)) OVER (), 0) AS share,
  (sum(c.duration_ns) / (SELECT count(*) FROM _steady_iteration))::DOUBLE AS per_iteration_ns
FROM limit_piece AS c
LEFT JOIN process AS p ON p.process_id = c.process_id
LEFT JOIN process AS b ON b.process_id = c.by_process_id
WHERE c.iteration_id IN (SELECT iteration_id FROM _steady_iteration)
GROUP BY ALL
ORDER BY time_ns DESC, c.process_id, c.operation, c.layer NULLS FIRST, c.cause, by_pid, counts_for
