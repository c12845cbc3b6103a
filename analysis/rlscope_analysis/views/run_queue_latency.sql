-- How long threads that could run waited for a CPU: each wait, and its distribution per thread.
-- Only whole waits: the beginning was seen (a wakeup, or the switch-out it followed) and a
-- switch-in ended it. A new thread's wait begins when its creator has made it runnable; the instants
-- before, when it was still being built, are runnable time but no wait.
CREATE OR REPLACE VIEW run_queue_latency AS
SELECT
  t.process_id, t.pid, s.thread_id, s.start_ns, s.end_ns, s.end_ns - s.start_ns AS duration_ns,
  CASE WHEN s.waker_kind IS NOT NULL THEN 'wakeup' ELSE 'preemption' END AS cause,
  s.waker_thread_id, s.waker_kind::VARCHAR AS waker_kind
FROM _state_step AS s LEFT JOIN _thread_owner AS t ON t.thread_id = s.thread_id
WHERE s.state = 'runnable' AND s.next_state = 'running' AND (s.waker_kind IS NOT NULL OR s.previous_state = 'running');
COMMENT ON VIEW run_queue_latency IS 'Each wait for a CPU whose beginning and end were both seen';
COMMENT ON COLUMN run_queue_latency.process_id IS 'The process of the thread';
COMMENT ON COLUMN run_queue_latency.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN run_queue_latency.thread_id IS 'The thread that waited';
COMMENT ON COLUMN run_queue_latency.start_ns IS 'When it became runnable';
COMMENT ON COLUMN run_queue_latency.end_ns IS 'When it got a CPU';
COMMENT ON COLUMN run_queue_latency.duration_ns IS 'How long it waited: end_ns - start_ns';
COMMENT ON COLUMN run_queue_latency.cause IS 'What made it wait: wakeup, or preemption (also a yield)';
COMMENT ON COLUMN run_queue_latency.waker_thread_id IS 'The traced thread that woke it; NULL: see waker_kind';
COMMENT ON COLUMN run_queue_latency.waker_kind IS 'Who woke it: thread (a traced one), timer, device, interrupt, outside, unknown; NULL: nobody, it was preempted';

CREATE OR REPLACE VIEW run_queue_latency_summary AS
SELECT
  thread_id,
  count(*) AS waits,
  quantile_disc(duration_ns, 0.5) AS p50_ns,
  quantile_disc(duration_ns, 0.99) AS p99_ns,
  max(duration_ns) AS max_ns
FROM run_queue_latency
GROUP BY thread_id;
COMMENT ON VIEW run_queue_latency_summary IS 'Run-queue latency of each thread that waited for a CPU at least once; exact quantiles, each a wait that occurred';
COMMENT ON COLUMN run_queue_latency_summary.thread_id IS 'The thread that waited';
COMMENT ON COLUMN run_queue_latency_summary.waits IS 'How often';
COMMENT ON COLUMN run_queue_latency_summary.p50_ns IS 'Half of its waits took at most this long';
COMMENT ON COLUMN run_queue_latency_summary.p99_ns IS '99 of 100 of its waits took at most this long';
COMMENT ON COLUMN run_queue_latency_summary.max_ns IS 'Its longest wait';
