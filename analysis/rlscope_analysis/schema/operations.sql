-- What the program says it is doing: NVTX ranges, and the phases found without any.

CREATE TABLE operation_path (
  path_id INTEGER, parent_path_id INTEGER,
  name VARCHAR, domain VARCHAR, category VARCHAR, source VARCHAR, depth INTEGER,
  color UINTEGER, framework_name VARCHAR
);
COMMENT ON TABLE operation_path IS 'The distinct stacks of operations that occurred, as a tree: one row for the innermost operation of each';
COMMENT ON COLUMN operation_path.path_id IS 'Key of this path, counted from 1; parents come before their children. 0 elsewhere means (unannotated)';
COMMENT ON COLUMN operation_path.parent_path_id IS 'The path of the operation around it; NULL: it is outermost';
COMMENT ON COLUMN operation_path.name IS 'Name of the innermost operation';
COMMENT ON COLUMN operation_path.domain IS 'NVTX domain; NULL: the default one';
COMMENT ON COLUMN operation_path.category IS 'NVTX category; NULL: none';
COMMENT ON COLUMN operation_path.source IS 'Who marked it: nvtx (the program), auto (found by us), record_function (PyTorch, imported), hlo (phases inside a program of XLA, by the metadata of its instructions, and the program around them), jax (steps that the program marked, imported), ray (a task, or a method of an actor); lost: nobody, operations were dropped there, named (lost)';
COMMENT ON COLUMN operation_path.depth IS 'How many operations are around it: 0 is outermost';
COMMENT ON COLUMN operation_path.color IS 'ARGB, as the program gave it for the first instance of this name; NULL: none';
COMMENT ON COLUMN operation_path.framework_name IS 'Of a phase that a framework times itself: what the framework calls it (verl: update_actor); NULL: of any other';

CREATE TABLE operation_coded (
  thread_id INTEGER, start_ns BIGINT, end_ns BIGINT, path_id INTEGER, environment_steps BIGINT
);
COMMENT ON TABLE operation_coded IS 'Storage behind the views operation and operation_gap, sorted by (process, thread_id, start_ns, depth); query the view';
COMMENT ON COLUMN operation_coded.thread_id IS 'The thread';
COMMENT ON COLUMN operation_coded.start_ns IS 'When the operation began';
COMMENT ON COLUMN operation_coded.end_ns IS 'When it ended';
COMMENT ON COLUMN operation_coded.path_id IS 'Which operation, and inside which others: operation_path';
COMMENT ON COLUMN operation_coded.environment_steps IS 'As in operation';

CREATE VIEW operation AS
SELECT
  t.process_id, t.pid, o.thread_id, o.start_ns, o.end_ns, o.end_ns - o.start_ns AS duration_ns,
  p.name, p.domain, p.category, p.source, p.depth, o.path_id, o.environment_steps,
  p.framework_name
FROM operation_coded AS o
JOIN operation_path AS p ON p.path_id = o.path_id
LEFT JOIN _thread_owner AS t ON t.thread_id = o.thread_id
WHERE p.source IS DISTINCT FROM 'lost';
COMMENT ON VIEW operation IS 'Each instance of an operation, on the thread that marked it. Time belongs to the innermost that is open: the one opened last';
COMMENT ON COLUMN operation.process_id IS 'The process of the thread';
COMMENT ON COLUMN operation.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN operation.thread_id IS 'The thread';
COMMENT ON COLUMN operation.start_ns IS 'When it began';
COMMENT ON COLUMN operation.end_ns IS 'When it ended';
COMMENT ON COLUMN operation.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN operation.name IS 'Name';
COMMENT ON COLUMN operation.domain IS 'NVTX domain; NULL: the default one';
COMMENT ON COLUMN operation.category IS 'NVTX category; NULL: none';
COMMENT ON COLUMN operation.source IS 'Who marked it: nvtx (the program), auto (found by us), record_function (PyTorch, imported), hlo (inside a program of XLA, by the metadata of its instructions), jax (steps of a JAX program, imported), ray (a task, or a method of an actor)';
COMMENT ON COLUMN operation.depth IS 'How many operations were open around it: 0 is outermost';
COMMENT ON COLUMN operation.path_id IS 'The stack of operations it tops: operation_path';
COMMENT ON COLUMN operation.framework_name IS 'Of a phase that a framework times itself: what the framework calls it; NULL: of any other';
COMMENT ON COLUMN operation.environment_steps IS 'Of simulation that we found: how many environment steps it is, n where a vector environment of n takes one; 0: it is none (a reset), or failed. Where a range of the program stands for simulation, those of the simulation inside. NULL: of any other operation, or not known. Workers step what the process above them counts, too: environment_step';

CREATE VIEW operation_gap AS
SELECT
  t.process_id, t.pid, o.thread_id, o.start_ns, o.end_ns, o.end_ns - o.start_ns AS duration_ns, o.path_id
FROM operation_coded AS o
JOIN operation_path AS p ON p.path_id = o.path_id
LEFT JOIN _thread_owner AS t ON t.thread_id = o.thread_id
WHERE p.source = 'lost';
COMMENT ON VIEW operation_gap IS 'Where operations of a thread are missing because their records were dropped: from when the first of them began to when the last ended, less the operations recorded between. Other views call the operation there (lost)';
COMMENT ON COLUMN operation_gap.process_id IS 'The process of the thread';
COMMENT ON COLUMN operation_gap.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN operation_gap.thread_id IS 'The thread';
COMMENT ON COLUMN operation_gap.start_ns IS 'Start of the interval';
COMMENT ON COLUMN operation_gap.end_ns IS 'End of the interval';
COMMENT ON COLUMN operation_gap.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN operation_gap.path_id IS 'The stack of operations that were open, with (lost) on top: operation_path';

CREATE TABLE async_range_coded (
  process_id INTEGER, start_ns BIGINT, end_ns BIGINT, name VARCHAR, domain VARCHAR
);
COMMENT ON TABLE async_range_coded IS 'Storage behind the view async_range; query the view';
COMMENT ON COLUMN async_range_coded.process_id IS 'The process';
COMMENT ON COLUMN async_range_coded.start_ns IS 'When it began';
COMMENT ON COLUMN async_range_coded.end_ns IS 'When it ended';
COMMENT ON COLUMN async_range_coded.name IS 'Name';
COMMENT ON COLUMN async_range_coded.domain IS 'As in the view';

CREATE VIEW async_range AS
SELECT
  a.process_id, p.pid, a.start_ns, a.end_ns, a.end_ns - a.start_ns AS duration_ns, a.name, a.domain
FROM async_range_coded AS a LEFT JOIN process AS p ON p.process_id = a.process_id;
COMMENT ON VIEW async_range IS 'Ranges that belong to no thread, and may overlap: NVTX start/end ranges, which may begin on one thread and end on another, and methods of async actors of Ray';
COMMENT ON COLUMN async_range.process_id IS 'The process';
COMMENT ON COLUMN async_range.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN async_range.start_ns IS 'When it began';
COMMENT ON COLUMN async_range.end_ns IS 'When it ended';
COMMENT ON COLUMN async_range.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN async_range.name IS 'Name';
COMMENT ON COLUMN async_range.domain IS 'NVTX domain; NULL: the default one; ray: a method of an async actor, as the cluster tells of it';

CREATE TABLE operation_payload (
  thread_id INTEGER, start_ns BIGINT, path_id INTEGER, integer_value HUGEINT, real_value DOUBLE
);
COMMENT ON TABLE operation_payload IS 'The numbers that the program attached to instances of operations (NVTX payloads)';
COMMENT ON COLUMN operation_payload.thread_id IS 'The thread: with start_ns and path_id the instance in operation';
COMMENT ON COLUMN operation_payload.start_ns IS 'When the instance began';
COMMENT ON COLUMN operation_payload.path_id IS 'Its path';
COMMENT ON COLUMN operation_payload.integer_value IS 'The payload where it is an integer';
COMMENT ON COLUMN operation_payload.real_value IS 'The payload where it is a floating-point number';

CREATE TABLE mark_coded (
  thread_id INTEGER, ts_ns BIGINT, name VARCHAR, domain VARCHAR, category VARCHAR
);
COMMENT ON TABLE mark_coded IS 'Storage behind the view mark; query the view';
COMMENT ON COLUMN mark_coded.thread_id IS 'The thread that marked it';
COMMENT ON COLUMN mark_coded.ts_ns IS 'When';
COMMENT ON COLUMN mark_coded.name IS 'Name';
COMMENT ON COLUMN mark_coded.domain IS 'As in the view';
COMMENT ON COLUMN mark_coded.category IS 'As in the view';

CREATE VIEW mark AS
SELECT t.process_id, t.pid, m.thread_id, m.ts_ns, m.name, m.domain, m.category
FROM mark_coded AS m LEFT JOIN _thread_owner AS t ON t.thread_id = m.thread_id;
COMMENT ON VIEW mark IS 'Instants that the program marked (NVTX marks)';
COMMENT ON COLUMN mark.process_id IS 'The process of the thread';
COMMENT ON COLUMN mark.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN mark.thread_id IS 'The thread that marked it';
COMMENT ON COLUMN mark.ts_ns IS 'When';
COMMENT ON COLUMN mark.name IS 'Name';
COMMENT ON COLUMN mark.domain IS 'NVTX domain; NULL: the default one';
COMMENT ON COLUMN mark.category IS 'NVTX category; NULL: none';
