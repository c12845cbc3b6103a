-- Waits for locks of the GPU's driver. Its own threads and those of a profiler have such a lock for
-- microseconds, and what they did before has nothing to do with it: a wait is a delay, no message.
CREATE OR REPLACE VIEW _wait_in_driver AS
-- Calls lie in each other: until the end of the outermost a thread is in one.
WITH call AS (
  SELECT
    thread_id, start_ns,
    max(end_ns) OVER (PARTITION BY thread_id ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS end_ns
  FROM cuda_call_coded
  WHERE thread_id IN (SELECT thread_id FROM wait_coded WHERE kind = 'lock')
)
SELECT w.thread_id, w.start_ns, w.end_ns
FROM (FROM wait_coded WHERE kind = 'lock') AS w
ASOF JOIN call AS c ON c.thread_id = w.thread_id AND c.start_ns <= w.start_ns
WHERE c.end_ns >= w.end_ns;
COMMENT ON VIEW _wait_in_driver IS 'Private: may change without notice. Waits for a lock inside a call of the CUDA runtime or driver';
COMMENT ON COLUMN _wait_in_driver.thread_id IS 'The thread';
COMMENT ON COLUMN _wait_in_driver.start_ns IS 'When the wait began';
COMMENT ON COLUMN _wait_in_driver.end_ns IS 'When it ended';
