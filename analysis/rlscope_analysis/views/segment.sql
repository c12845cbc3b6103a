-- The segments of the threads in words, over the stream that `segments` opens: for a connection that asks.
-- No join: DuckDB would take the stream for a small table and hold all of it.
CREATE OR REPLACE TEMP VIEW segment AS
SELECT
  thread_id, start_ns, end_ns, end_ns - start_ns AS duration_ns, path_id,
  CASE state WHEN 0 THEN 'running' WHEN 1 THEN 'runnable' WHEN 2 THEN 'sleeping' WHEN 3 THEN 'blocked' WHEN 4 THEN 'lost' END AS state,
  CASE layer WHEN 1 THEN 'python' WHEN 2 THEN 'simulator' WHEN 3 THEN 'backend' WHEN 4 THEN 'cuda_api' WHEN 5 THEN 'spin' WHEN 6 THEN 'other' END AS layer,
  CASE wait WHEN 1 THEN 'gil' WHEN 2 THEN 'gpu' WHEN 3 THEN 'io' WHEN 4 THEN 'lock' WHEN 5 THEN 'pipe' WHEN 6 THEN 'socket' WHEN 7 THEN 'sleep' WHEN 8 THEN 'poll' WHEN 9 THEN 'process' END AS wait,
  CASE gpu WHEN 0 THEN FALSE WHEN 1 THEN TRUE END AS gpu_busy
FROM _segment_coded;
