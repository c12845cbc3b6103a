-- What the critical path is asked by. Worked out for an open trace, not stored: iterations depend on
-- what counts as one.

CREATE OR REPLACE TABLE iteration (
  iteration_id INTEGER, process_id INTEGER, thread_id INTEGER,
  start_ns BIGINT, end_ns BIGINT, source VARCHAR, name VARCHAR, is_first BOOLEAN,
  environment_steps BIGINT, evaluation_steps BIGINT
);
COMMENT ON TABLE iteration IS 'The iterations of the training, on the thread that leads it';
COMMENT ON COLUMN iteration.iteration_id IS 'Key of this iteration, counted from 1 in the order of time';
COMMENT ON COLUMN iteration.process_id IS 'The process that leads the training';
COMMENT ON COLUMN iteration.thread_id IS 'The thread that leads it';
COMMENT ON COLUMN iteration.start_ns IS 'When it began: the one before had ended';
COMMENT ON COLUMN iteration.end_ns IS 'When it ended';
COMMENT ON COLUMN iteration.source IS 'How it was found: phases (from the end of one update to the end of the next), range (a range of the program), whole (nothing looks like one: all of the trace)';
COMMENT ON COLUMN iteration.name IS 'The range that counts as one; NULL: source is not range';
COMMENT ON COLUMN iteration.is_first IS 'Whether it is the first of all, which is slower in most programs';
COMMENT ON COLUMN iteration.environment_steps IS 'Environment steps of the run that ended in it, those of workers once, those of evaluations not: environment_step; NULL: the trace tells of none';
COMMENT ON COLUMN iteration.evaluation_steps IS 'Environment steps of evaluations that ended in it; NULL: the trace tells of no steps';

-- The first one is slower in most programs: left out where there are enough others.
CREATE OR REPLACE VIEW _steady_iteration AS
SELECT iteration_id, end_ns - start_ns AS time_ns FROM iteration
WHERE NOT is_first OR (SELECT count(*) FROM iteration) < 3;
COMMENT ON VIEW _steady_iteration IS 'Private: may change without notice. The iterations but the first, where there are enough';
COMMENT ON COLUMN _steady_iteration.iteration_id IS 'The iteration';
COMMENT ON COLUMN _steady_iteration.time_ns IS 'How long it took';

CREATE OR REPLACE VIEW _training_span AS
SELECT
  any_value(process_id) AS process_id, any_value(thread_id) AS thread_id,
  min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM iteration WHERE iteration_id IN (SELECT iteration_id FROM _steady_iteration);
COMMENT ON VIEW _training_span IS 'Private: may change without notice. What figures of the training are about: from the start of the first such iteration to the end of the last';
COMMENT ON COLUMN _training_span.process_id IS 'The process that leads the training';
COMMENT ON COLUMN _training_span.thread_id IS 'The thread that leads it';
COMMENT ON COLUMN _training_span.start_ns IS 'When the first of them began';
COMMENT ON COLUMN _training_span.end_ns IS 'When the last of them ended';

CREATE OR REPLACE VIEW _phase AS
WITH RECURSIVE named AS (
  SELECT
    path_id, parent_path_id, name, source,
    CASE
      WHEN source = 'auto' OR name IN ('simulation', 'inference', 'backpropagation', 'data') THEN name
    END AS phase
  FROM operation_path
), inside AS (
  SELECT path_id, parent_path_id, name, source, phase FROM named WHERE parent_path_id IS NULL
  UNION ALL
  SELECT n.path_id, n.parent_path_id, n.name, n.source, coalesce(n.phase, i.phase)
  FROM named AS n JOIN inside AS i ON i.path_id = n.parent_path_id
)
SELECT
  path_id, name, phase, CASE WHEN source = 'lost' THEN name ELSE coalesce(phase, name) END AS label
FROM inside;
COMMENT ON VIEW _phase IS 'Private: may change without notice. The innermost phase that each stack of operations is in';
COMMENT ON COLUMN _phase.path_id IS 'The stack of operations: operation_path';
COMMENT ON COLUMN _phase.name IS 'Its innermost operation';
COMMENT ON COLUMN _phase.phase IS 'The phase; NULL: it is in none';
COMMENT ON COLUMN _phase.label IS 'What its time is shown as: the phase, without one its own name; what was lost is no phase';

CREATE OR REPLACE TABLE critical_path_coded (
  iteration_id INTEGER, start_ns BIGINT, end_ns BIGINT,
  thread_id INTEGER, device_id INTEGER, stream_id BIGINT, gpu_kind GPU_ACTIVITY_KIND, gpu_name_id INTEGER,
  path_id INTEGER, layer LAYER, cause CAUSE,
  by_thread_id INTEGER, by_program_id INTEGER, wait WAIT_KIND, waiter_thread_id INTEGER
);
COMMENT ON TABLE critical_path_coded IS 'Storage behind the view critical_path; query the view';
COMMENT ON COLUMN critical_path_coded.iteration_id IS 'The iteration';
COMMENT ON COLUMN critical_path_coded.start_ns IS 'Start of the piece';
COMMENT ON COLUMN critical_path_coded.end_ns IS 'End of the piece';
COMMENT ON COLUMN critical_path_coded.thread_id IS 'The thread that the path is on; NULL: it is on a GPU';
COMMENT ON COLUMN critical_path_coded.device_id IS 'The GPU that it is on; NULL: it is on a thread';
COMMENT ON COLUMN critical_path_coded.stream_id IS 'The stream that it is on; NULL: on none, or not known';
COMMENT ON COLUMN critical_path_coded.gpu_kind IS 'As in the view';
COMMENT ON COLUMN critical_path_coded.gpu_name_id IS 'Its name: string; NULL: it has none, or it is on a thread';
COMMENT ON COLUMN critical_path_coded.path_id IS 'The stack of operations open there: operation_path; 0: none';
COMMENT ON COLUMN critical_path_coded.layer IS 'As in the view';
COMMENT ON COLUMN critical_path_coded.cause IS 'As in the view, but for waits for the GIL';
COMMENT ON COLUMN critical_path_coded.by_thread_id IS 'The thread that had the CPU; NULL: cause is another';
COMMENT ON COLUMN critical_path_coded.by_program_id IS 'The program outside the trace that had the CPU: other_program; NULL: cause is another';
COMMENT ON COLUMN critical_path_coded.wait IS 'As in the view';
COMMENT ON COLUMN critical_path_coded.waiter_thread_id IS 'The thread that waits for what the path is on; NULL: none';

CREATE OR REPLACE VIEW critical_path AS
SELECT
  c.iteration_id, c.start_ns, c.end_ns, c.end_ns - c.start_ns AS duration_ns,
  t.process_id, c.thread_id, c.device_id, c.stream_id,
  c.gpu_kind::VARCHAR AS gpu_kind, g.value AS gpu_name,
  coalesce(p.name, '(unannotated)') AS operation, c.path_id,
  c.layer::VARCHAR AS layer,
  CASE WHEN c.wait = 'gil' AND c.thread_id <> i.thread_id THEN 'gil' ELSE c.cause::VARCHAR END AS cause,
  b.process_id AS by_process_id, c.by_thread_id, o.name AS by_program, o.pid AS by_program_pid,
  c.wait::VARCHAR AS wait,
  c.waiter_thread_id
FROM critical_path_coded AS c
JOIN iteration AS i ON i.iteration_id = c.iteration_id
LEFT JOIN thread AS t ON t.thread_id = c.thread_id
LEFT JOIN thread AS b ON b.thread_id = c.by_thread_id
LEFT JOIN string AS g ON g.string_id = c.gpu_name_id
LEFT JOIN other_program AS o ON o.program_id = c.by_program_id
LEFT JOIN operation_path AS p ON p.path_id = c.path_id;
COMMENT ON VIEW critical_path IS 'What held each iteration up, piece by piece: the pieces of an iteration tile it, to the nanosecond';
COMMENT ON COLUMN critical_path.iteration_id IS 'The iteration';
COMMENT ON COLUMN critical_path.start_ns IS 'Start of the piece';
COMMENT ON COLUMN critical_path.end_ns IS 'End of the piece';
COMMENT ON COLUMN critical_path.duration_ns IS 'Its length';
COMMENT ON COLUMN critical_path.process_id IS 'The process that the path is in; NULL: it is on a GPU';
COMMENT ON COLUMN critical_path.thread_id IS 'The thread that it is on; NULL: it is on a GPU';
COMMENT ON COLUMN critical_path.device_id IS 'The GPU that it is on; NULL: it is on a thread';
COMMENT ON COLUMN critical_path.stream_id IS 'The stream that it is on; NULL: on none, or not known';
COMMENT ON COLUMN critical_path.gpu_kind IS 'What the GPU does there, as in gpu_activity; NULL: the path is on a thread';
COMMENT ON COLUMN critical_path.gpu_name IS 'The kernel; NULL: it has no name, or the path is on a thread';
COMMENT ON COLUMN critical_path.operation IS 'The innermost operation open there; of a GPU, where the work was launched';
COMMENT ON COLUMN critical_path.path_id IS 'The stack of operations: operation_path; 0: none is open';
COMMENT ON COLUMN critical_path.layer IS 'The layer of the innermost known call there; NULL: inside none';
COMMENT ON COLUMN critical_path.cause IS 'What took the time: docs/critical_path.md explains each';
COMMENT ON COLUMN critical_path.by_process_id IS 'The process of by_thread_id';
COMMENT ON COLUMN critical_path.by_thread_id IS 'The thread that had the CPU (cpu_taken); NULL: cause is another';
COMMENT ON COLUMN critical_path.by_program IS 'The program outside the trace that had the CPU (cpu_taken_by_other); NULL: cause is another';
COMMENT ON COLUMN critical_path.by_program_pid IS 'Its process id on the machine (the initial pid namespace)';
COMMENT ON COLUMN critical_path.wait IS 'What the waiter waits for, as in wait; NULL: not known, or nobody waits';
COMMENT ON COLUMN critical_path.waiter_thread_id IS 'The thread that waits for what the path is on; NULL: none does, the path is on the thread that leads, or what it does is on nobody''s account';
