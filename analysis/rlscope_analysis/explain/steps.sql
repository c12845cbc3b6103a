-- The path of one iteration, in the order of time: pieces that follow each other and tell the same are
-- one step. {iteration_id} is the iteration.
WITH piece AS (
  SELECT
    start_ns, end_ns, process_id, thread_id, device_id, operation, cause, wait, by_process_id,
    hash(thread_id, device_id, operation, cause, wait, by_process_id) AS key
  FROM critical_path WHERE iteration_id = {iteration_id}
), numbered AS (
  SELECT *, sum(is_new::INTEGER) OVER (ORDER BY start_ns) AS step
  FROM (SELECT *, key IS DISTINCT FROM lag(key) OVER (ORDER BY start_ns) AS is_new FROM piece)
), step AS (
  SELECT
    min(start_ns) AS start_ns, max(end_ns) AS end_ns, any_value(process_id) AS process_id,
    any_value(thread_id) AS thread_id, any_value(device_id) AS device_id,
    any_value(operation) AS operation, any_value(cause) AS cause, any_value(wait) AS wait,
    any_value(by_process_id) AS by_process_id
  FROM numbered GROUP BY step
)
SELECT
  s.start_ns - (SELECT start_ns FROM iteration WHERE iteration_id = {iteration_id}) AS after_ns,
  s.end_ns - s.start_ns AS duration_ns,
  s.process_id, p.pid, p.name AS process, s.device_id,
  s.operation, s.cause, s.wait AS waited_for_as,
  b.pid AS cpu_had_by_pid, s.start_ns, s.thread_id
FROM step AS s
LEFT JOIN process AS p ON p.process_id = s.process_id
LEFT JOIN process AS b ON b.process_id = s.by_process_id
ORDER BY s.start_ns
