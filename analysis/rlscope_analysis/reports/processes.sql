-- What each process did in the iterations of the leading one but the first.
SELECT
  p.process_id, p.pid, p.name, p.is_titled, p.role, p.number, p.is_lead, p.is_marked, p.running_ns, p.cpu_share,
  p.spin_share, p.queue_share, p.sleeps_share, p.waits_share, f.pid AS waits_for_pid, f.name AS waits_for
FROM training_process AS p LEFT JOIN process AS f ON f.process_id = p.waits_for_process_id
