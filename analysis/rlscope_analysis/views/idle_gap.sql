-- Why the GPU waited: the gaps between its intervals of work, with what ended each. An instant
-- activity neither begins nor ends a gap, unless it is the first or the last of its process.
CREATE OR REPLACE VIEW _idle_gap AS
WITH bound AS (
  SELECT process_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM _gpu_work GROUP BY process_id
), work AS (
  SELECT a.process_id, a.device_id, a.stream_id, a.kind, a.name_id, a.correlation_id, a.start_ns, a.end_ns
  FROM gpu_activity_coded AS a JOIN bound AS b ON b.process_id = a.process_id
  WHERE a.kind <> 'sync' AND a.end_ns >= a.start_ns
    AND (a.end_ns > a.start_ns OR a.start_ns IN (b.first_ns, b.last_ns))
), seen AS (
  SELECT
    process_id, device_id, stream_id, kind, name_id, correlation_id, start_ns,
    max(end_ns) OVER (PARTITION BY process_id ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns,
    lead(start_ns) OVER (PARTITION BY process_id ORDER BY start_ns, end_ns) AS next_start_ns
  FROM work
), opened AS (
  SELECT
    process_id, device_id, stream_id, kind, name_id, correlation_id, start_ns, before_ns,
    next_start_ns IS NOT DISTINCT FROM start_ns AS is_shared
  FROM seen
  WHERE start_ns > before_ns
), candidate AS (
  SELECT process_id, device_id, stream_id, kind, name_id, correlation_id, start_ns, before_ns, is_shared
  FROM opened
  WHERE NOT is_shared
  UNION ALL
  SELECT w.process_id, w.device_id, w.stream_id, w.kind, w.name_id, w.correlation_id, w.start_ns, o.before_ns, TRUE
  FROM opened AS o JOIN work AS w ON w.process_id = o.process_id AND w.start_ns = o.start_ns
  WHERE o.is_shared
), ending AS MATERIALIZED (
  SELECT
    w.process_id, w.before_ns AS start_ns, w.start_ns AS end_ns,
    c.call.thread_id AS thread_id, c.call.start_ns AS call_start_ns,
    w.device_id, w.stream_id, w.kind, w.name_id, w.is_shared
  FROM candidate AS w
  LEFT JOIN _launching_call AS c ON c.process_id = w.process_id AND c.correlation_id = w.correlation_id
), first AS (
  -- Several activities may end a gap together: the one that was launched first tells, of equal ones
  -- that on the first device and stream. They are few: the others take no part in this.
  SELECT
    process_id, start_ns, end_ns,
    min({'at_ns': coalesce(call_start_ns, end_ns), 'device_id': device_id, 'stream_id': stream_id, 'call_start_ns': call_start_ns, 'thread_id': thread_id, 'name_id': name_id, 'kind': kind}) AS activity
  FROM ending
  WHERE is_shared
  GROUP BY process_id, start_ns, end_ns
)
SELECT process_id, start_ns, end_ns, thread_id, call_start_ns, kind AS next_kind, name_id AS next_name_id
FROM ending
WHERE NOT is_shared
UNION ALL
SELECT
  process_id, start_ns, end_ns,
  activity.thread_id, activity.call_start_ns, activity.kind, activity.name_id
FROM first;
COMMENT ON VIEW _idle_gap IS 'Private: may change without notice. The gaps of idle_gap, with the call and the activity that ended each';
COMMENT ON COLUMN _idle_gap.process_id IS 'The process';
COMMENT ON COLUMN _idle_gap.start_ns IS 'When its GPUs fell idle';
COMMENT ON COLUMN _idle_gap.end_ns IS 'When one of them worked again';
COMMENT ON COLUMN _idle_gap.thread_id IS 'The thread that made the call';
COMMENT ON COLUMN _idle_gap.call_start_ns IS 'When it was made; NULL: it is not in the trace';
COMMENT ON COLUMN _idle_gap.next_kind IS 'As in gpu_activity_coded';
COMMENT ON COLUMN _idle_gap.next_name_id IS 'Name of the kernel or of the kind of copy: string';

CREATE OR REPLACE VIEW idle_gap AS
WITH launched AS (
  SELECT
    g.process_id, g.start_ns, g.end_ns, g.thread_id, g.call_start_ns, g.next_kind, g.next_name_id,
    o.path_id AS next_path_id
  FROM _idle_gap AS g
  ASOF LEFT JOIN _operation_change AS o ON o.thread_id = g.thread_id AND o.ts_ns <= g.call_start_ns
), during AS (
  SELECT
    l.process_id, l.start_ns, l.end_ns, l.thread_id, l.call_start_ns, l.next_kind, l.next_name_id,
    l.next_path_id, o.path_id
  FROM launched AS l
  ASOF LEFT JOIN _operation_change AS o ON o.thread_id = l.thread_id AND o.ts_ns <= l.start_ns
), stated AS (
  SELECT
    d.process_id, d.start_ns, d.end_ns, d.thread_id, d.call_start_ns, d.next_kind, d.next_name_id,
    d.next_path_id, d.path_id, s.state, s.end_ns AS state_end_ns
  FROM during AS d
  ASOF LEFT JOIN thread_state_coded AS s ON s.thread_id = d.thread_id AND s.start_ns <= d.start_ns
)
SELECT
  g.process_id, q.pid, g.start_ns, g.end_ns,
  g.end_ns - g.start_ns AS duration_ns,
  CASE
    WHEN g.call_start_ns IS NULL THEN NULL
    WHEN g.call_start_ns >= g.start_ns THEN 'not launched'
    ELSE 'launched'
  END AS cause,
  CASE WHEN g.call_start_ns IS NOT NULL THEN greatest(g.call_start_ns - g.start_ns, 0) END AS unlaunched_ns,
  g.thread_id,
  CASE WHEN g.thread_id IS NOT NULL THEN coalesce(p.name, '(unannotated)') END AS operation,
  CASE WHEN g.state_end_ns > g.start_ns THEN g.state::VARCHAR END AS state,
  g.next_kind::VARCHAR AS next_kind,
  s.value AS next_name,
  CASE WHEN g.thread_id IS NOT NULL THEN coalesce(n.name, '(unannotated)') END AS next_operation
FROM stated AS g
LEFT JOIN operation_path AS p ON p.path_id = g.path_id
LEFT JOIN operation_path AS n ON n.path_id = g.next_path_id
LEFT JOIN string AS s ON s.string_id = g.next_name_id
LEFT JOIN process AS q ON q.process_id = g.process_id;
COMMENT ON VIEW idle_gap IS 'Each gap between two intervals of gpu_busy of a process, and between these and instant activities at the start and the end of its GPU work: the GPU had nothing to do, or could not begin. What all threads did meanwhile: breakdown WHERE NOT gpu_busy';
COMMENT ON COLUMN idle_gap.process_id IS 'The process';
COMMENT ON COLUMN idle_gap.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
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
