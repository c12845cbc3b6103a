-- From the call on the CPU to the activity on the GPU, and the operations on both sides.
-- The innermost operation changes where one starts and where one ends; at an end it becomes the one
-- around it. At the same instant ends come before starts, inner ends before outer ones, and outer
-- starts before inner ones: the last of them holds. That is exact for nested operations; of operations
-- that cross, the one around the one that ended is taken, though another may still be open.
CREATE OR REPLACE VIEW _operation_change AS
WITH change AS (
  SELECT o.thread_id, o.start_ns AS ts_ns, o.path_id, p.depth + 1 AS rank
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE o.end_ns > o.start_ns
  UNION ALL
  SELECT o.thread_id, o.end_ns, coalesce(p.parent_path_id, 0), -p.depth - 1
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE o.end_ns > o.start_ns
), settled AS (
  SELECT
    thread_id, ts_ns,
    arg_max(path_id, rank) FILTER (WHERE rank > 0) AS started_path_id,
    arg_max(path_id, rank) FILTER (WHERE rank < 0) AS ended_path_id
  FROM change
  GROUP BY thread_id, ts_ns
)
SELECT thread_id, ts_ns, coalesce(started_path_id, ended_path_id) AS path_id
FROM settled;
COMMENT ON VIEW _operation_change IS 'Private: may change without notice. The innermost operation of each thread from this instant to the next';
COMMENT ON COLUMN _operation_change.thread_id IS 'The thread';
COMMENT ON COLUMN _operation_change.ts_ns IS 'From when';
COMMENT ON COLUMN _operation_change.path_id IS 'The stack of operations: operation_path; 0: none is open';

CREATE OR REPLACE VIEW _launching_call AS
-- A call of the runtime and that of the driver inside it may carry one id: the outermost is the one
-- the program made.
SELECT
  t.process_id, c.correlation_id,
  min({'start_ns': c.start_ns, 'minus_end_ns': -c.end_ns, 'thread_id': c.thread_id, 'name_id': c.name_id}) AS call
FROM cuda_call_coded AS c JOIN thread AS t ON t.thread_id = c.thread_id
WHERE c.correlation_id IS NOT NULL
GROUP BY t.process_id, c.correlation_id;
COMMENT ON VIEW _launching_call IS 'Private: may change without notice. The call behind each correlation_id of a process';
COMMENT ON COLUMN _launching_call.process_id IS 'The process';
COMMENT ON COLUMN _launching_call.correlation_id IS 'What ties it to activities, within the process';
COMMENT ON COLUMN _launching_call.call IS 'When it began, minus when it ended, thread and name';

CREATE OR REPLACE VIEW _sampled_call AS
-- Outermost calls of a thread follow each other: a sample fell into the last one that had begun, or
-- into none.
WITH called AS (
  SELECT process_id, correlation_id, call.thread_id AS thread_id, call.start_ns AS start_ns, -call.minus_end_ns AS end_ns
  FROM _launching_call
)
SELECT c.process_id, c.correlation_id, arg_min(s.stack_id, s.ts_ns) AS stack_id, count(*) AS samples
FROM cpu_sample_coded AS s
ASOF JOIN called AS c ON c.thread_id = s.thread_id AND c.start_ns <= s.ts_ns
WHERE s.stack_id IS NOT NULL AND s.ts_ns < c.end_ns
GROUP BY c.process_id, c.correlation_id;
COMMENT ON VIEW _sampled_call IS 'Private: may change without notice. Calls into which samples with a Python stack fell';
COMMENT ON COLUMN _sampled_call.process_id IS 'The process';
COMMENT ON COLUMN _sampled_call.correlation_id IS 'What ties it to activities, within the process';
COMMENT ON COLUMN _sampled_call.stack_id IS 'What the first of the samples found: stack';
COMMENT ON COLUMN _sampled_call.samples IS 'How many fell into it';

CREATE OR REPLACE VIEW _first_activity AS
SELECT process_id, correlation_id, min(start_ns) AS start_ns
FROM gpu_activity_coded
WHERE kind <> 'sync' AND correlation_id IS NOT NULL
GROUP BY process_id, correlation_id;
COMMENT ON VIEW _first_activity IS 'Private: may change without notice. When the GPU began what a call asked for';
COMMENT ON COLUMN _first_activity.process_id IS 'The process';
COMMENT ON COLUMN _first_activity.correlation_id IS 'What ties the activities to the call, within the process';
COMMENT ON COLUMN _first_activity.start_ns IS 'When the first of them began, also where that is before the window';

CREATE OR REPLACE VIEW launch AS
WITH paired AS (
  -- An activity is never there twice.
  SELECT
    a.process_id, c.call.thread_id AS thread_id, a.correlation_id,
    c.call.name_id AS call_name_id, c.call.start_ns AS call_start_ns, -c.call.minus_end_ns AS call_end_ns,
    a.device_id, a.stream_id, a.kind, a.name_id, a.graph_id, a.start_ns, a.end_ns
  FROM gpu_activity_coded AS a
  LEFT JOIN _launching_call AS c ON c.process_id = a.process_id AND c.correlation_id = a.correlation_id
), launched AS (
  SELECT
    p.process_id, p.thread_id, p.correlation_id, p.call_name_id, p.call_start_ns, p.call_end_ns,
    p.device_id, p.stream_id, p.kind, p.name_id, p.graph_id, p.start_ns, p.end_ns,
    o.path_id AS launch_path_id
  FROM paired AS p
  ASOF LEFT JOIN _operation_change AS o ON o.thread_id = p.thread_id AND o.ts_ns <= p.call_start_ns
), run AS (
  SELECT
    l.process_id, l.thread_id, l.correlation_id, l.call_name_id, l.call_start_ns, l.call_end_ns,
    l.device_id, l.stream_id, l.kind, l.name_id, l.graph_id, l.start_ns, l.end_ns,
    l.launch_path_id, o.path_id AS run_path_id
  FROM launched AS l
  ASOF LEFT JOIN _operation_change AS o ON o.thread_id = l.thread_id AND o.ts_ns <= l.start_ns
)
SELECT
  r.process_id, q.pid, r.thread_id, r.correlation_id,
  cs.value AS call_name, r.call_start_ns, r.call_end_ns,
  r.device_id, r.stream_id, r.graph_id,
  r.kind::VARCHAR AS kind,
  s.value AS name, r.start_ns, r.end_ns, r.end_ns - r.start_ns AS duration_ns,
  r.start_ns - r.call_start_ns AS latency_ns,
  r.start_ns - r.call_end_ns AS queue_ns,
  CASE WHEN r.thread_id IS NOT NULL THEN coalesce(lp.name, '(unannotated)') END AS operation,
  CASE WHEN r.thread_id IS NOT NULL THEN coalesce(rp.name, '(unannotated)') END AS running_operation,
  k.stack_id
FROM run AS r
LEFT JOIN _sampled_call AS k ON k.process_id = r.process_id AND k.correlation_id = r.correlation_id
LEFT JOIN string AS cs ON cs.string_id = r.call_name_id
LEFT JOIN string AS s ON s.string_id = r.name_id
LEFT JOIN operation_path AS lp ON lp.path_id = r.launch_path_id
LEFT JOIN operation_path AS rp ON rp.path_id = r.run_path_id
LEFT JOIN process AS q ON q.process_id = r.process_id;
COMMENT ON VIEW launch IS 'Each GPU activity, once, with the call that caused it (of several with its id the outermost), and with both attributions: the operation that launched it, and the one open when it began to run';
COMMENT ON COLUMN launch.process_id IS 'The process';
COMMENT ON COLUMN launch.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN launch.thread_id IS 'The thread that called; NULL: the call is not in the trace';
COMMENT ON COLUMN launch.correlation_id IS 'What ties the two, within the process; NULL: none is known';
COMMENT ON COLUMN launch.call_name IS 'The function that was called; NULL: the call is not in the trace';
COMMENT ON COLUMN launch.call_start_ns IS 'When it was entered';
COMMENT ON COLUMN launch.call_end_ns IS 'When it returned';
COMMENT ON COLUMN launch.device_id IS 'The GPU';
COMMENT ON COLUMN launch.stream_id IS 'The stream; NULL: not known';
COMMENT ON COLUMN launch.graph_id IS 'The CUDA graph; NULL: none, or not known';
COMMENT ON COLUMN launch.kind IS 'kernel, memcpy, memset, graph, sync';
COMMENT ON COLUMN launch.name IS 'Name of the kernel or of the kind of copy';
COMMENT ON COLUMN launch.start_ns IS 'When the GPU began';
COMMENT ON COLUMN launch.end_ns IS 'When the GPU had finished';
COMMENT ON COLUMN launch.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN launch.latency_ns IS 'From the call to the start on the GPU; NULL: the call is not in the trace';
COMMENT ON COLUMN launch.queue_ns IS 'From the return of the call to the start on the GPU; negative: the GPU began before the call returned';
COMMENT ON COLUMN launch.operation IS 'Innermost operation of the calling thread when it called; NULL: the call is not in the trace';
COMMENT ON COLUMN launch.running_operation IS 'Innermost operation of the calling thread when the GPU began';
COMMENT ON COLUMN launch.stack_id IS 'Python functions that made the call: stack; NULL: no sample fell into it, which is so for most: those with one stand for all';
