-- Waits for a lock that another thread had. A futex may as well be a signal (a condition, a semaphore that counts
-- work): there who wakes does what the waiter needs. It is a lock where the C library or Python says so, or who wakes
-- its waiters waits for it at times; and where the holder has it on its own account: what makes it go on meanwhile is no
-- message of others. Within a process addresses tell nothing: conditions of Python use memory again. There a thread that
-- learns or acts says of all else that it waits for that it does (its phase `wait`), and what is left are locks.
CREATE OR REPLACE TABLE _wait_for_holder AS
WITH lock AS (
  SELECT lock_address FROM wait_coded
  WHERE lock_address IS NOT NULL
  GROUP BY lock_address
  HAVING min(thread_id) < max(thread_id) OR lock_address IN (FROM python_lock)
), phase AS (
  SELECT o.thread_id, o.start_ns, o.end_ns, p.name
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE p.source = 'auto' AND p.name IN ('wait', 'backpropagation', 'inference')
), called AS (
  -- They lie in each other: until the end of the outermost a thread is in one.
  SELECT
    thread_id, start_ns,
    max(end_ns) OVER (PARTITION BY thread_id ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS end_ns
  FROM phase WHERE name = 'wait'
), watched AS (
  SELECT DISTINCT thread_id FROM phase WHERE name <> 'wait'
), asleep AS (
  SELECT w.*, w.thread_id IN (FROM watched) AND coalesce(c.end_ns <= w.start_ns, true) AS is_uncalled
  FROM (FROM wait_coded WHERE kind = 'lock') AS w
  ASOF LEFT JOIN called AS c ON c.thread_id = w.thread_id AND c.start_ns <= w.start_ns
), woken AS (
  SELECT
    w.thread_id, w.start_ns, w.end_ns, w.lock_address, w.is_mutex, t.process_id,
    s.waker_thread_id, k.process_id AS waker_process_id,
    w.is_uncalled AND (k.python_name IS NOT NULL OR coalesce(k.tid = p.pid, false)) AS is_of_python
  FROM asleep AS w
  JOIN thread_state_coded AS s
    ON s.thread_id = w.thread_id AND s.start_ns = w.end_ns AND s.state = 'runnable' AND s.waker_kind = 'thread'
  JOIN thread AS t ON t.thread_id = w.thread_id
  JOIN thread AS k ON k.thread_id = s.waker_thread_id
  LEFT JOIN process AS p ON p.process_id = k.process_id
  WHERE w.is_mutex OR w.is_uncalled OR w.lock_address IN (SELECT lock_address FROM lock)
), held AS (
  FROM woken AS w
  WHERE w.is_mutex
    OR CASE WHEN w.waker_process_id = w.process_id THEN w.is_of_python
      ELSE w.lock_address IN (FROM python_lock)
        OR EXISTS (FROM woken AS o WHERE o.process_id = w.waker_process_id AND o.lock_address = w.lock_address)
    END
), other AS (
  SELECT s.thread_id, s.start_ns AS ts_ns, w.lock_address
  FROM thread_state_coded AS s
  LEFT JOIN wait_coded AS w ON w.thread_id = s.thread_id AND w.end_ns = s.start_ns
  WHERE s.state = 'runnable' AND s.waker_kind = 'thread'
    AND s.thread_id IN (SELECT waker_thread_id FROM held)
)
SELECT h.thread_id, h.start_ns, h.end_ns
FROM held AS h
ASOF LEFT JOIN other AS o ON o.thread_id = h.waker_thread_id AND o.ts_ns < h.end_ns
WHERE coalesce(o.ts_ns < h.start_ns, true) OR o.lock_address IS NOT DISTINCT FROM h.lock_address;
