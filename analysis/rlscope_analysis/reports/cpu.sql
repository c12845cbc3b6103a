-- Who had the CPUs, and who waited for them.
SELECT
  c.process_id, c.thread_id, p.pid, t.tid, c.name, c.running_ns, c.share_of_running AS share, c.cpus, c.runnable_ns,
  c.starved_share, c.lifetime_ns
FROM cpu_share AS c
JOIN thread AS t ON t.thread_id = c.thread_id
LEFT JOIN process AS p ON p.process_id = c.process_id
WHERE c.running_ns IS NOT NULL
ORDER BY c.running_ns DESC, c.thread_id
