-- Each interval with the one before and the one after it of the same thread: the base of every
-- view about transitions.
-- The windows have neither PARTITION BY nor ORDER BY: thread_state_coded is stored sorted by
-- (process, thread_id, start_ns), DuckDB reads a table in stored order, and such a window streams.
-- That is 0.1 s and no memory for 10 M rows, where sorting again takes 1.1 s and 1 GB.
-- A neighbour counts only if it touches: where records were lost there is a gap, and what lies on
-- its two sides is not known to follow each other.
CREATE OR REPLACE VIEW _state_step AS
WITH neighbour AS (
  SELECT
    thread_id, start_ns, end_ns, state, cpu, waker_kind, waker_thread_id,
    lag(thread_id) OVER () AS before_thread_id,
    lag(end_ns) OVER () AS before_end_ns,
    lag(state) OVER () AS before_state,
    lead(thread_id) OVER () AS after_thread_id,
    lead(start_ns) OVER () AS after_start_ns,
    lead(state) OVER () AS after_state,
    lead(waker_kind) OVER () AS after_waker_kind,
    lead(waker_thread_id) OVER () AS after_waker_thread_id
  FROM thread_state_coded
)
SELECT
  thread_id, start_ns, end_ns, state, cpu, waker_kind, waker_thread_id,
  CASE WHEN before_thread_id = thread_id AND before_end_ns = start_ns THEN before_state END AS previous_state,
  CASE WHEN after_thread_id = thread_id AND after_start_ns = end_ns THEN after_state END AS next_state,
  CASE WHEN after_thread_id = thread_id AND after_start_ns = end_ns THEN after_waker_kind END AS next_waker_kind,
  CASE WHEN after_thread_id = thread_id AND after_start_ns = end_ns THEN after_waker_thread_id END AS next_waker_thread_id,
  coalesce(after_thread_id = thread_id, FALSE) AS is_followed
FROM neighbour;
COMMENT ON VIEW _state_step IS 'Private: may change without notice. Each interval of thread_state_coded with its neighbours';
COMMENT ON COLUMN _state_step.thread_id IS 'The thread';
COMMENT ON COLUMN _state_step.start_ns IS 'Start of the interval';
COMMENT ON COLUMN _state_step.end_ns IS 'End of the interval';
COMMENT ON COLUMN _state_step.state IS 'As in thread_state_coded';
COMMENT ON COLUMN _state_step.cpu IS 'CPU of a running interval, -1 for the others';
COMMENT ON COLUMN _state_step.waker_kind IS 'As in thread_state_coded';
COMMENT ON COLUMN _state_step.waker_thread_id IS 'As in thread_state_coded';
COMMENT ON COLUMN _state_step.previous_state IS 'State of the interval that ends where this one starts; NULL: none, or lost';
COMMENT ON COLUMN _state_step.next_state IS 'State of the interval that starts where this one ends; NULL: none, or lost';
COMMENT ON COLUMN _state_step.next_waker_kind IS 'That of the interval that starts where this one ends; NULL: none, or lost';
COMMENT ON COLUMN _state_step.next_waker_thread_id IS 'The same of waker_thread_id';
COMMENT ON COLUMN _state_step.is_followed IS 'Whether the thread has a later interval, be it after a gap';
