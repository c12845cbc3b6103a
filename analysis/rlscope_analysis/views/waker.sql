-- Who woke whom, and how often.
CREATE OR REPLACE VIEW waker AS
WITH woken AS (
  SELECT thread_id, waker, count(*) AS wakeups, sum(end_ns - start_ns)::BIGINT AS runnable_ns
  FROM thread_state_coded
  WHERE waker <> 0
  GROUP BY thread_id, waker
)
SELECT
  thread_id,
  CASE WHEN waker > 0 THEN waker END AS waker_thread_id,
  CASE WHEN waker > 0 THEN 'thread' WHEN waker = -1 THEN 'interrupt' WHEN waker = -2 THEN 'outside' ELSE 'unknown' END AS waker_kind,
  wakeups, runnable_ns
FROM woken;
COMMENT ON VIEW waker IS 'Who woke each thread, and how often; a new thread is first woken by its creator';
COMMENT ON COLUMN waker.thread_id IS 'The thread that was woken';
COMMENT ON COLUMN waker.waker_thread_id IS 'The traced thread that woke it; NULL: see waker_kind';
COMMENT ON COLUMN waker.waker_kind IS 'thread (a traced one), interrupt (timer or device), outside (a thread outside the trace), unknown (this capture cannot tell)';
COMMENT ON COLUMN waker.wakeups IS 'How often';
COMMENT ON COLUMN waker.runnable_ns IS 'How long the thread then waited for a CPU, in all';
