-- The segments of the threads in words, over the stream that `segments` opens: for a connection that asks.
-- No join: DuckDB would take the stream for a small table and hold all of it.
CREATE OR REPLACE TEMP VIEW segment AS
SELECT
  thread_id, start_ns, end_ns, end_ns - start_ns AS duration_ns, path_id,
  (enum_range(NULL::THREAD_STATE))[state::INTEGER + 1] AS state,
  (enum_range(NULL::LAYER))[layer] AS layer,
  (enum_range(NULL::WAIT_KIND))[wait] AS wait,
  CASE WHEN gpu <= 1 THEN gpu::BOOLEAN END AS gpu_busy
FROM _segment_coded;
