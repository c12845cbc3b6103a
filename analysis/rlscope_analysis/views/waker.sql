-- Who woke whom, and how often.
CREATE OR REPLACE VIEW waker AS
SELECT
  thread_id, waker_thread_id, waker_kind::VARCHAR AS waker_kind,
  count(*) AS wakeups, sum(end_ns - start_ns)::BIGINT AS runnable_ns
FROM thread_state_coded
WHERE waker_kind IS NOT NULL
GROUP BY thread_id, waker_thread_id, thread_state_coded.waker_kind;
COMMENT ON VIEW waker IS 'Who woke each thread, and how often; a new thread is first woken by its creator';
COMMENT ON COLUMN waker.thread_id IS 'The thread that was woken';
COMMENT ON COLUMN waker.waker_thread_id IS 'The traced thread that woke it; NULL: see waker_kind';
COMMENT ON COLUMN waker.waker_kind IS 'thread (a traced one), timer, device (also the network), interrupt (one of them: this capture cannot tell), outside (a thread outside the trace), unknown (this capture cannot tell)';
COMMENT ON COLUMN waker.wakeups IS 'How often';
COMMENT ON COLUMN waker.runnable_ns IS 'How long the thread then waited for a CPU, in all';
