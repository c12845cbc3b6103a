-- CPU, GPU, CPU+GPU: the resources that worked for each thread, by operation and layer.
CREATE OR REPLACE VIEW resource_time AS
WITH judged AS (
  SELECT
    process_id, thread_id, operation, layer, gpu_busy, time_ns, count,
    -- Where nobody measured the state, being inside a call that does not wait is taken for work.
    CASE
      WHEN state = 'running' THEN TRUE
      WHEN state IN ('runnable', 'sleeping', 'blocked') THEN FALSE
      WHEN state IS NULL AND wait IS NOT NULL THEN FALSE
      WHEN state IS NULL AND layer IS NOT NULL THEN TRUE
    END AS cpu_busy
  FROM thread_overlap
)
SELECT
  process_id, thread_id, operation,
  CASE
    WHEN cpu_busy AND gpu_busy THEN 'CPU+GPU'
    WHEN cpu_busy AND NOT gpu_busy THEN 'CPU'
    WHEN NOT cpu_busy AND gpu_busy THEN 'GPU'
    WHEN NOT cpu_busy AND NOT gpu_busy THEN 'none'
  END AS resource,
  CASE WHEN cpu_busy THEN layer END AS layer,
  sum(time_ns)::BIGINT AS time_ns,
  sum(count)::BIGINT AS count
FROM judged
GROUP BY ALL;
COMMENT ON VIEW resource_time IS 'Which resources worked for each thread, by operation and layer: the rows of a thread add up to its lifetime';
COMMENT ON COLUMN resource_time.process_id IS 'The process of the thread';
COMMENT ON COLUMN resource_time.thread_id IS 'The thread';
COMMENT ON COLUMN resource_time.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN resource_time.resource IS 'CPU (the thread was on a CPU; where states were not measured: it was inside a known call that does not wait), GPU (only a GPU worked for its process), CPU+GPU, none; NULL: one of the two was not measured, or its records were lost';
COMMENT ON COLUMN resource_time.layer IS 'What the thread ran: python, simulator, backend, cuda_api; NULL: it did not run, or the layer is not known';
COMMENT ON COLUMN resource_time.time_ns IS 'How long';
COMMENT ON COLUMN resource_time.count IS 'In how many intervals of one stack of operations, state, layer and wait';
