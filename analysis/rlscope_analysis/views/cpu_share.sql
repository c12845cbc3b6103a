-- Who had the CPUs, and who waited for them.
CREATE OR REPLACE VIEW cpu_share AS
WITH span AS (
  SELECT max(end_ns) - min(start_ns) AS span_ns FROM thread
)
SELECT
  m.process_id, m.thread_id, t.name,
  m.running_ns, m.runnable_ns, m.lifetime_ns,
  m.running_ns / nullif(m.lifetime_ns, 0) AS share_of_lifetime,
  m.running_ns / nullif(sum(m.running_ns) OVER (), 0) AS share_of_running,
  m.running_ns / nullif(s.span_ns, 0) AS cpus,
  m.runnable_ns / nullif(m.running_ns + m.runnable_ns, 0) AS starved_share
FROM thread_time AS m
JOIN thread AS t ON t.thread_id = m.thread_id
CROSS JOIN span AS s;
COMMENT ON VIEW cpu_share IS 'Who had the CPUs, and who waited for them, one row per thread';
COMMENT ON COLUMN cpu_share.process_id IS 'The process of the thread';
COMMENT ON COLUMN cpu_share.thread_id IS 'The thread';
COMMENT ON COLUMN cpu_share.name IS 'Its name';
COMMENT ON COLUMN cpu_share.running_ns IS 'Time on a CPU; NULL: not measured';
COMMENT ON COLUMN cpu_share.runnable_ns IS 'Time it waited for a CPU; NULL: not measured';
COMMENT ON COLUMN cpu_share.lifetime_ns IS 'How long it was traced';
COMMENT ON COLUMN cpu_share.share_of_lifetime IS 'running_ns / lifetime_ns';
COMMENT ON COLUMN cpu_share.share_of_running IS 'Its part of the running time of all threads of the trace: these add up to 1';
COMMENT ON COLUMN cpu_share.cpus IS 'CPUs it kept busy on average over the whole trace: running_ns / span of the trace. The sum over all threads is the mean number of busy CPUs';
COMMENT ON COLUMN cpu_share.starved_share IS 'runnable_ns / (running_ns + runnable_ns): how much of the CPU time it wanted it had to wait for';
