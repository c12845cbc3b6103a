-- Waits for a lock that another thread had. A futex may as well be a signal (a condition, a semaphore that counts
-- work): there who wakes does what the waiter needs. It is a lock where the C library or Python says so, or who wakes
-- its waiters waits for it at times; and where the holder has it on its own account: what makes it go on meanwhile is no
-- message of others. Of a process by itself only the C library's are told from signals: conditions of Python use
-- memory again.
CREATE OR REPLACE TABLE _wait_for_holder AS
WITH lock AS (
  SELECT lock_address FROM wait_coded
  WHERE lock_address IS NOT NULL
  GROUP BY lock_address
  HAVING min(thread_id) < max(thread_id) OR lock_address IN (FROM python_lock)
), woken AS (
  SELECT
    w.thread_id, w.start_ns, w.end_ns, w.lock_address, w.is_mutex, t.process_id,
    s.waker_thread_id, k.process_id AS waker_process_id
  FROM wait_coded AS w
  JOIN thread_state_coded AS s
    ON s.thread_id = w.thread_id AND s.start_ns = w.end_ns AND s.state = 'runnable' AND s.waker_kind = 'thread'
  JOIN thread AS t ON t.thread_id = w.thread_id
  JOIN thread AS k ON k.thread_id = s.waker_thread_id
  WHERE w.is_mutex OR w.lock_address IN (SELECT lock_address FROM lock)
), held AS (
  FROM woken AS w
  WHERE w.is_mutex OR (w.waker_process_id <> w.process_id AND (
    w.lock_address IN (FROM python_lock)
    OR EXISTS (FROM woken AS o WHERE o.process_id = w.waker_process_id AND o.lock_address = w.lock_address)
  ))
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
