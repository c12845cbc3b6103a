-- Waits for the GIL, each as one: CPython waits for it in slices of 5 ms.
-- A slice goes on with the wait before it if a timer ended that one and the thread was on a CPU for less
-- than 100 us until it waited again: it looked, and the GIL was not free.
CREATE OR REPLACE VIEW gil_wait AS
WITH slice AS (
  SELECT
    w.thread_id, w.start_ns, w.end_ns,
    s.waker_kind, s.waker_thread_id, s.end_ns AS resumed_ns,
    r.start_ns AS ran_from_ns
  FROM wait_coded AS w
  LEFT JOIN thread_state_coded AS s ON s.thread_id = w.thread_id AND s.start_ns = w.end_ns AND s.state = 'runnable'
  LEFT JOIN thread_state_coded AS r
    ON r.thread_id = w.thread_id AND r.end_ns = w.start_ns AND r.state = 'running' AND r.end_ns - r.start_ns < 100000
  WHERE w.kind = 'gil'
), linked AS (
  SELECT
    thread_id, start_ns, end_ns, waker_thread_id,
    coalesce(
      lag(waker_kind) OVER same_thread IN ('interrupt', 'timer') AND lag(resumed_ns) OVER same_thread = ran_from_ns, FALSE
    ) AS goes_on
  FROM slice
  WINDOW same_thread AS (PARTITION BY thread_id ORDER BY start_ns)
), numbered AS (
  SELECT
    thread_id, start_ns, end_ns, waker_thread_id,
    count(CASE WHEN NOT goes_on THEN 1 END) OVER (PARTITION BY thread_id ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS number
  FROM linked
), waited AS (
  SELECT
    thread_id,
    min(start_ns) AS start_ns,
    max(end_ns) AS end_ns,
    sum(end_ns - start_ns)::BIGINT AS wait_ns,
    count(*) AS slices,
    last(waker_thread_id ORDER BY start_ns) AS waker_thread_id
  FROM numbered
  GROUP BY thread_id, number
)
SELECT
  t.process_id, t.pid, w.thread_id, w.start_ns, w.end_ns, w.end_ns - w.start_ns AS duration_ns,
  w.wait_ns, w.slices,
  CASE WHEN h.process_id = t.process_id THEN w.waker_thread_id END AS holder_thread_id
FROM waited AS w
LEFT JOIN _thread_owner AS t ON t.thread_id = w.thread_id
LEFT JOIN thread AS h ON h.thread_id = w.waker_thread_id;
COMMENT ON VIEW gil_wait IS 'Each wait of a thread for the GIL, its slices together, and who had it; waits that could be had without sleeping are not in it';
COMMENT ON COLUMN gil_wait.process_id IS 'The process of the thread';
COMMENT ON COLUMN gil_wait.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN gil_wait.thread_id IS 'The thread that waited';
COMMENT ON COLUMN gil_wait.start_ns IS 'When it began to wait';
COMMENT ON COLUMN gil_wait.end_ns IS 'When it was woken for the last time';
COMMENT ON COLUMN gil_wait.duration_ns IS 'end_ns - start_ns: between slices it was on a CPU, or waited for one';
COMMENT ON COLUMN gil_wait.wait_ns IS 'Part of duration_ns that it waited off the CPU: the sum of the slices';
COMMENT ON COLUMN gil_wait.slices IS 'In how many slices';
COMMENT ON COLUMN gil_wait.holder_thread_id IS 'The thread of the same process whose wakeup ended it: it gave the GIL away; NULL: not known, for example because a timer ended it';
