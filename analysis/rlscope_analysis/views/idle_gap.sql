-- Why the GPU waited: the gaps between its stretches of work, with what ended each.
CREATE OR REPLACE VIEW idle_gap AS
WITH gap AS (
  SELECT
    process_id,
    end_ns AS start_ns,
    lead(start_ns) OVER (PARTITION BY process_id ORDER BY start_ns) AS end_ns
  FROM gpu_busy
), next AS (
  -- Several activities may end a gap together: the one that was launched first tells, of equal ones
  -- that on the first device and stream.
  SELECT
    process_id, start_ns AS end_ns,
    min({'at_ns': coalesce(call_start_ns, start_ns), 'device_id': device_id, 'stream_id': stream_id, 'call_start_ns': call_start_ns, 'thread_id': thread_id, 'name': name, 'kind': kind, 'operation': operation}) AS activity
  FROM launch
  WHERE kind <> 'sync' AND launch.end_ns > launch.start_ns
  GROUP BY process_id, start_ns
), ended AS (
  SELECT
    g.process_id, g.start_ns, g.end_ns,
    n.activity.thread_id AS thread_id, n.activity.call_start_ns AS call_start_ns,
    n.activity.name AS next_name, n.activity.kind AS next_kind, n.activity.operation AS next_operation
  FROM gap AS g LEFT JOIN next AS n ON n.process_id = g.process_id AND n.end_ns = g.end_ns
  WHERE g.end_ns IS NOT NULL
), during AS (
  SELECT
    e.process_id, e.start_ns, e.end_ns, e.thread_id, e.call_start_ns,
    e.next_name, e.next_kind, e.next_operation,
    o.path_id
  FROM ended AS e
  ASOF LEFT JOIN _operation_change AS o ON o.thread_id = e.thread_id AND o.ts_ns <= e.start_ns
), stated AS (
  SELECT
    d.process_id, d.start_ns, d.end_ns, d.thread_id, d.call_start_ns,
    d.next_name, d.next_kind, d.next_operation,
    d.path_id, s.state, s.end_ns AS state_end_ns
  FROM during AS d
  ASOF LEFT JOIN thread_state AS s ON s.thread_id = d.thread_id AND s.start_ns <= d.start_ns
)
SELECT
  g.process_id, g.start_ns, g.end_ns,
  g.end_ns - g.start_ns AS duration_ns,
  CASE
    WHEN g.call_start_ns IS NULL THEN NULL
    WHEN g.call_start_ns >= g.start_ns THEN 'not launched'
    ELSE 'launched'
  END AS cause,
  CASE WHEN g.call_start_ns IS NOT NULL THEN greatest(g.call_start_ns - g.start_ns, 0) END AS unlaunched_ns,
  g.thread_id,
  CASE WHEN g.thread_id IS NOT NULL THEN coalesce(p.name, '(unannotated)') END AS operation,
  CASE WHEN g.state_end_ns > g.start_ns THEN g.state END AS state,
  g.next_kind, g.next_name, g.next_operation
FROM stated AS g LEFT JOIN operation_path AS p ON p.path_id = g.path_id;
COMMENT ON VIEW idle_gap IS 'Each gap between two stretches of gpu_busy of a process: the GPU had nothing to do, or could not begin. What all threads did meanwhile: breakdown WHERE NOT gpu_busy';
COMMENT ON COLUMN idle_gap.process_id IS 'The process';
COMMENT ON COLUMN idle_gap.start_ns IS 'When its GPUs fell idle';
COMMENT ON COLUMN idle_gap.end_ns IS 'When one of them worked again';
COMMENT ON COLUMN idle_gap.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN idle_gap.cause IS 'not launched: the call that ended the gap was made only after it began, the CPU was late; launched: it had been made before, so the work was on its way or waited for other work; NULL: that call is not in the trace';
COMMENT ON COLUMN idle_gap.unlaunched_ns IS 'Part of the gap before that call was made; NULL: that call is not in the trace';
COMMENT ON COLUMN idle_gap.thread_id IS 'The thread that made that call';
COMMENT ON COLUMN idle_gap.operation IS 'Its innermost operation when the gap began; (unannotated): none was open';
COMMENT ON COLUMN idle_gap.state IS 'Its state when the gap began; NULL: not measured, or lost';
COMMENT ON COLUMN idle_gap.next_kind IS 'What ended the gap: kernel, memcpy, memset, graph';
COMMENT ON COLUMN idle_gap.next_name IS 'Name of the kernel or of the kind of copy that ended it';
COMMENT ON COLUMN idle_gap.next_operation IS 'The operation that launched that; (unannotated): none was open';
