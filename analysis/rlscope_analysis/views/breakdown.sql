-- The conservation law: at every instant every thread is in exactly one bucket.
-- A bucket is made of the state, and of the layer or the wait where they are known:
--   running            the layer of the innermost known call, else running
--   runnable           runnable
--   sleeping, blocked  gil_wait, gpu_wait, io_wait if the wait is known; an unknown wait that cannot be
--                      interrupted is io_wait, any other is sleeping
--   not measured       the wait or else the layer if known, else unknown
CREATE OR REPLACE VIEW breakdown AS
WITH bucketed AS (
  SELECT
    process_id, thread_id, operation, gpu_busy, time_ns, count,
    CASE
      WHEN state IN ('runnable', 'lost') THEN state
      WHEN state = 'running' THEN coalesce(layer, 'running')
      WHEN wait = 'gil' THEN 'gil_wait'
      WHEN wait = 'gpu' THEN 'gpu_wait'
      WHEN wait IN ('io', 'pipe', 'socket') THEN 'io_wait'
      WHEN wait IS NOT NULL THEN 'sleeping'
      WHEN state = 'blocked' THEN 'io_wait'
      WHEN state = 'sleeping' THEN 'sleeping'
      ELSE coalesce(layer, 'unknown')
    END AS bucket
  FROM thread_overlap
)
SELECT
  process_id, thread_id, operation, bucket, gpu_busy,
  sum(time_ns)::BIGINT AS time_ns,
  sum(count)::BIGINT AS count
FROM bucketed
GROUP BY process_id, thread_id, operation, bucket, gpu_busy;
COMMENT ON VIEW breakdown IS 'Where the time went: process x thread x operation x bucket x GPU busy. The rows of a thread add up to its lifetime, to the nanosecond';
COMMENT ON COLUMN breakdown.process_id IS 'The process of the thread';
COMMENT ON COLUMN breakdown.thread_id IS 'The thread';
COMMENT ON COLUMN breakdown.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN breakdown.bucket IS 'On a CPU: python, simulator, backend, cuda_api, or running (layer not measured); runnable: it waited for a CPU; off the CPU: gil_wait, gpu_wait, io_wait, sleeping; lost: its records were; unknown: its state was not measured';
COMMENT ON COLUMN breakdown.gpu_busy IS 'Whether a GPU worked for the process at that time; NULL: not measured';
COMMENT ON COLUMN breakdown.time_ns IS 'How long';
COMMENT ON COLUMN breakdown.count IS 'In how many stretches of one stack of operations, state, layer and wait';

CREATE OR REPLACE VIEW thread_bucket AS
SELECT
  b.process_id, b.thread_id, b.bucket,
  sum(b.time_ns)::BIGINT AS time_ns,
  any_value(t.end_ns - t.start_ns) AS lifetime_ns,
  sum(b.time_ns) / nullif(any_value(t.end_ns - t.start_ns), 0) AS share
FROM breakdown AS b JOIN thread AS t ON t.thread_id = b.thread_id
GROUP BY b.process_id, b.thread_id, b.bucket;
COMMENT ON VIEW thread_bucket IS 'The buckets of each thread: they add up to its lifetime, to the nanosecond';
COMMENT ON COLUMN thread_bucket.process_id IS 'The process of the thread';
COMMENT ON COLUMN thread_bucket.thread_id IS 'The thread';
COMMENT ON COLUMN thread_bucket.bucket IS 'As in breakdown';
COMMENT ON COLUMN thread_bucket.time_ns IS 'How long the thread was in it';
COMMENT ON COLUMN thread_bucket.lifetime_ns IS 'How long the thread was traced';
COMMENT ON COLUMN thread_bucket.share IS 'time_ns / lifetime_ns';
