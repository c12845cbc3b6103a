-- Where the lifetime of each thread went.
CREATE OR REPLACE VIEW thread_time AS
-- By thread and state first: a sum with a condition for each state takes twice as long.
WITH in_state AS (
  SELECT thread_id, state, sum(end_ns - start_ns)::BIGINT AS time_ns
  FROM thread_state_coded
  GROUP BY thread_id, state
), state_time AS (
  SELECT
    thread_id,
    coalesce(sum(time_ns) FILTER (WHERE state = 'running'), 0)::BIGINT AS running_ns,
    coalesce(sum(time_ns) FILTER (WHERE state = 'runnable'), 0)::BIGINT AS runnable_ns,
    coalesce(sum(time_ns) FILTER (WHERE state = 'sleeping'), 0)::BIGINT AS sleeping_ns,
    coalesce(sum(time_ns) FILTER (WHERE state = 'blocked'), 0)::BIGINT AS blocked_ns
  FROM in_state
  GROUP BY thread_id
)
SELECT
  t.thread_id, t.process_id,
  CASE WHEN m.measured THEN coalesce(s.running_ns, 0) END AS running_ns,
  CASE WHEN m.measured THEN coalesce(s.runnable_ns, 0) END AS runnable_ns,
  CASE WHEN m.measured THEN coalesce(s.sleeping_ns, 0) END AS sleeping_ns,
  CASE WHEN m.measured THEN coalesce(s.blocked_ns, 0) END AS blocked_ns,
  CASE WHEN m.measured THEN t.lost_ns END AS lost_ns,
  t.end_ns - t.start_ns AS lifetime_ns
FROM thread AS t
LEFT JOIN state_time AS s ON s.thread_id = t.thread_id
LEFT JOIN _measured AS m ON m.process_id IS NOT DISTINCT FROM t.process_id AND m.kind = 'thread_state';
COMMENT ON VIEW thread_time IS 'Time each thread spent in each state: running + runnable + sleeping + blocked + lost = lifetime, to the nanosecond';
COMMENT ON COLUMN thread_time.thread_id IS 'The thread';
COMMENT ON COLUMN thread_time.process_id IS 'The process it belongs to';
COMMENT ON COLUMN thread_time.running_ns IS 'On a CPU; NULL: not measured';
COMMENT ON COLUMN thread_time.runnable_ns IS 'Ready, but waiting for a CPU: run-queue latency; NULL: not measured';
COMMENT ON COLUMN thread_time.sleeping_ns IS 'Waiting for something, interruptible (S); also stopped; NULL: not measured';
COMMENT ON COLUMN thread_time.blocked_ns IS 'Waiting and not interruptible (D), as a rule for a disk; NULL: not measured';
COMMENT ON COLUMN thread_time.lost_ns IS 'Time whose records were lost: it may belong to any state; NULL: not measured';
COMMENT ON COLUMN thread_time.lifetime_ns IS 'From the first to the last instant at which its states are known';
