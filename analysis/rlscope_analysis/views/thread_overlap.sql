-- Where the time of each thread went, in every dimension, from what the overlap engine stored.
CREATE OR REPLACE VIEW thread_overlap AS
SELECT
  t.process_id, o.thread_id, o.path_id,
  CASE WHEN o.path_id = 0 THEN '(unannotated)' ELSE p.name END AS operation,
  o.state::VARCHAR AS state, o.layer::VARCHAR AS layer, o.wait::VARCHAR AS wait, o.gpu AS gpu_busy,
  o.time_ns, o.count, o.first_ns, o.last_ns
FROM thread_overlap_coded AS o
LEFT JOIN thread AS t ON t.thread_id = o.thread_id
LEFT JOIN operation_path AS p ON p.path_id = o.path_id;
COMMENT ON VIEW thread_overlap IS 'Time of each thread by stack of operations, state, layer, wait and GPU; the rows of a thread add up to its lifetime, to the nanosecond';
COMMENT ON COLUMN thread_overlap.process_id IS 'The process of the thread';
COMMENT ON COLUMN thread_overlap.thread_id IS 'The thread';
COMMENT ON COLUMN thread_overlap.path_id IS 'The stack of open operations: operation_path; 0: none was open';
COMMENT ON COLUMN thread_overlap.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN thread_overlap.state IS 'running, runnable, sleeping, blocked, or lost (its records were); NULL: not measured';
COMMENT ON COLUMN thread_overlap.layer IS 'The innermost known call: python, simulator, backend, cuda_api; NULL: inside none';
COMMENT ON COLUMN thread_overlap.wait IS 'What it waited for: gil, gpu, io, lock, pipe, socket, sleep, poll, process; NULL: not known, or it did not wait';
COMMENT ON COLUMN thread_overlap.gpu_busy IS 'Whether a GPU worked for the process at that time; NULL: not measured';
COMMENT ON COLUMN thread_overlap.time_ns IS 'How long all of this was so';
COMMENT ON COLUMN thread_overlap.count IS 'In how many intervals';
COMMENT ON COLUMN thread_overlap.first_ns IS 'Start of the first interval';
COMMENT ON COLUMN thread_overlap.last_ns IS 'End of the last interval';
