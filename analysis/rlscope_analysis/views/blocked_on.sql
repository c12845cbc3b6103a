-- What threads waited for while they were off the CPU.
CREATE OR REPLACE VIEW blocked_on AS
SELECT
  process_id, thread_id, operation, state, wait, layer,
  sum(time_ns)::BIGINT AS time_ns,
  sum(count)::BIGINT AS count
FROM thread_overlap
WHERE state IN ('sleeping', 'blocked') OR (state IS NULL AND wait IS NOT NULL)
GROUP BY ALL;
COMMENT ON VIEW blocked_on IS 'Time off the CPU by what was waited for, and in which operation and layer; who woke the thread is in the view waker';
COMMENT ON COLUMN blocked_on.process_id IS 'The process of the thread';
COMMENT ON COLUMN blocked_on.thread_id IS 'The thread';
COMMENT ON COLUMN blocked_on.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN blocked_on.state IS 'sleeping, or blocked (cannot be interrupted: a disk as a rule); NULL: not measured';
COMMENT ON COLUMN blocked_on.wait IS 'gil, gpu, io, lock, pipe, socket, sleep, poll, process; NULL: not known';
COMMENT ON COLUMN blocked_on.layer IS 'The innermost known call it waited in; NULL: inside none';
COMMENT ON COLUMN blocked_on.time_ns IS 'How long';
COMMENT ON COLUMN blocked_on.count IS 'How often: intervals of one stack of operations';
