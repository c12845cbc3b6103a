-- Where running threads were at the ticks of a clock of CPU time.

CREATE TABLE cpu_sample_coded (
  thread_id INTEGER, ts_ns BIGINT, layer LAYER, in_kernel BOOLEAN, by_stack BOOLEAN, stack_id INTEGER
);
COMMENT ON TABLE cpu_sample_coded IS 'Storage behind the view cpu_sample, sorted by (process, thread_id, ts_ns); query the view';
COMMENT ON COLUMN cpu_sample_coded.thread_id IS 'The thread that ran';
COMMENT ON COLUMN cpu_sample_coded.ts_ns IS 'When';
COMMENT ON COLUMN cpu_sample_coded.layer IS 'As in the view';
COMMENT ON COLUMN cpu_sample_coded.in_kernel IS 'As in the view';
COMMENT ON COLUMN cpu_sample_coded.by_stack IS 'As in the view';
COMMENT ON COLUMN cpu_sample_coded.stack_id IS 'Its Python functions: stack; NULL: none was found';

CREATE VIEW cpu_sample AS
SELECT
  t.process_id, t.pid, c.thread_id, c.ts_ns,
  c.layer::VARCHAR AS layer,
  c.stack_id, c.in_kernel, c.by_stack
FROM cpu_sample_coded AS c LEFT JOIN _thread_owner AS t ON t.thread_id = c.thread_id;
COMMENT ON VIEW cpu_sample IS 'Where running threads were at the ticks of a clock of CPU time: each stands for the same time on a CPU';
COMMENT ON COLUMN cpu_sample.process_id IS 'The process of the thread';
COMMENT ON COLUMN cpu_sample.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN cpu_sample.thread_id IS 'The thread that ran';
COMMENT ON COLUMN cpu_sample.ts_ns IS 'When';
COMMENT ON COLUMN cpu_sample.layer IS 'python, simulator, backend, cuda_api, spin (a known loop that waits on the CPU), other (native code of no layer); NULL: not known';
COMMENT ON COLUMN cpu_sample.stack_id IS 'Its Python functions: stack; NULL: none was found';
COMMENT ON COLUMN cpu_sample.in_kernel IS 'Whether the OS kernel worked for it';
COMMENT ON COLUMN cpu_sample.by_stack IS 'Whether the layer is that of a caller, found on the stack';

CREATE TABLE stack_coded (stack_id INTEGER, frames VARCHAR[]);
COMMENT ON TABLE stack_coded IS 'Storage behind the view stack; query the view';
COMMENT ON COLUMN stack_coded.stack_id IS 'Key of this stack, counted from 1';
COMMENT ON COLUMN stack_coded.frames IS 'The functions, outermost first';

CREATE VIEW stack AS
SELECT stack_id, frames, frames[-1] AS leaf FROM stack_coded;
COMMENT ON VIEW stack IS 'The stacks of Python functions that samples found, each once';
COMMENT ON COLUMN stack.stack_id IS 'Key of this stack, counted from 1';
COMMENT ON COLUMN stack.frames IS 'The functions, root first: frames[1] called frames[2], and so on to frames[-1], the leaf';
COMMENT ON COLUMN stack.leaf IS 'The innermost function: the one that ran, or had called the native code that did';
