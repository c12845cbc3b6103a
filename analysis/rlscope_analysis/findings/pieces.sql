-- What the rules of the catalogue may ask of a piece of the critical path. Where a trace has no samples, or
-- no GPU, the joins for them are left out: sorting millions of pieces for nothing takes seconds.
CREATE VIEW _limit_fact AS
WITH lead AS (
  SELECT DISTINCT process_id, thread_id FROM iteration
), acting AS (
  SELECT t.process_id, o.thread_id, o.start_ns, o.end_ns
  FROM operation_coded AS o
  JOIN operation_path AS p ON p.path_id = o.path_id
  JOIN thread AS t ON t.thread_id = o.thread_id
  WHERE p.name = 'simulation'
), simulating AS (
  SELECT DISTINCT process_id FROM acting
), learning AS (
  SELECT DISTINCT t.process_id
  FROM operation_coded AS o
  JOIN operation_path AS p ON p.path_id = o.path_id
  JOIN thread AS t ON t.thread_id = o.thread_id
  WHERE p.name = 'backpropagation'
), worker AS (
  -- Processes that the leading one waits for inside its own simulation.
  SELECT DISTINCT c.process_id
  FROM critical_path AS c
  ASOF JOIN acting AS a ON a.thread_id = c.waiter_thread_id AND a.start_ns <= c.start_ns
  WHERE c.start_ns < a.end_ns AND c.process_id NOT IN (SELECT process_id FROM lead)
    AND c.waiter_thread_id IN (SELECT thread_id FROM lead)
), python_thread AS (
  -- Threads that Python started, or that ran Python code; the others are of libraries, as teams of OpenMP are.
  SELECT t.thread_id
  FROM thread AS t LEFT JOIN process AS p ON p.process_id = t.process_id
  WHERE t.python_name IS NOT NULL OR t.tid = p.pid
    OR t.thread_id IN (SELECT thread_id FROM cpu_sample WHERE layer = 'python')
), at_barrier AS (
  -- Spinning until others of its team are done, who all have their CPUs: with fewer threads it would do their work.
  SELECT
    s.thread_id, s.ts_ns,
    bool_or(i.state = 'running') AND NOT bool_or(i.state = 'runnable') AS team_works
  FROM cpu_sample AS s
  JOIN thread AS w ON w.thread_id = s.thread_id
  JOIN thread AS t ON t.process_id = w.process_id AND t.thread_id <> w.thread_id
  ASOF JOIN thread_state_coded AS i ON i.thread_id = t.thread_id AND i.start_ns <= s.ts_ns
  WHERE s.layer = 'spin' AND s.ts_ns < i.end_ns
    AND s.thread_id IN (SELECT thread_id FROM critical_path)
    AND t.thread_id NOT IN (FROM python_thread)
  GROUP BY ALL
), sample AS (
  SELECT s.thread_id, s.ts_ns, s.layer, s.in_kernel, coalesce(o.path_id, 0) AS path_id, b.team_works
  FROM (SELECT thread_id, ts_ns, layer, in_kernel FROM cpu_sample) AS s
  ASOF LEFT JOIN _operation_change AS o ON o.thread_id = s.thread_id AND o.ts_ns <= s.ts_ns
  LEFT JOIN at_barrier AS b ON b.thread_id = s.thread_id AND b.ts_ns = s.ts_ns
), in_python AS (
  -- Threads most of whose samples are in Python code.
  SELECT thread_id FROM cpu_sample GROUP BY thread_id HAVING count(*) FILTER (WHERE layer = 'python') >= 0.5 * count(*)
), spinner AS (
  -- Threads most of whose samples are in loops that wait.
  SELECT thread_id FROM cpu_sample GROUP BY thread_id HAVING count(*) FILTER (WHERE layer = 'spin') >= 0.5 * count(*)
), arrived AS (
  -- Had its GPU finished all that the process had asked for when it was asked for this?
  SELECT
    a.process_id, l.from_thread_id AS thread_id, l.from_ns AS ts_ns,
    coalesce(max(a.end_ns) OVER (
      PARTITION BY a.process_id, a.device_id ORDER BY a.start_ns, a.end_ns
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) <= l.from_ns, true) AS is_empty
  FROM gpu_activity_coded AS a
  JOIN _flow_launch AS l
    ON l.process_id = a.process_id AND l.correlation_id = a.correlation_id AND l.to_ns = a.start_ns
    AND l.to_device_id = a.device_id AND l.to_stream_id IS NOT DISTINCT FROM a.stream_id
  WHERE a.kind <> 'sync'
), habit AS (
  SELECT
    r.process_id,
    count(*) FILTER (WHERE r.is_empty) >= 0.9 * count(*) AS queue_is_empty,
    any_value(coalesce(s.syncs, 0)) >= 0.1 * count(*) AS syncs_often
  FROM arrived AS r
  LEFT JOIN (SELECT process_id, count(*) AS syncs FROM _flow_sync GROUP BY ALL) AS s
    ON s.process_id = r.process_id
  GROUP BY r.process_id
), launch_gap AS (
  -- Between two launches that follow each other within a millisecond a thread is launching.
  SELECT thread_id, ts_ns, next_ns FROM (
    SELECT
      thread_id, ts_ns, lead(ts_ns) OVER (PARTITION BY thread_id ORDER BY ts_ns) AS next_ns
    FROM (SELECT DISTINCT thread_id, ts_ns FROM arrived)
  ) WHERE next_ns - ts_ns <= 1000000
), copying AS (
  -- A call that takes so long moves bytes; the others only have a copy begin.
  SELECT thread_id, start_ns, end_ns FROM cuda_call_coded WHERE kind = 'memcpy' AND end_ns - start_ns >= 100000
), growth AS (
  -- By how much each count of the OS kernel has grown since the reading before.
  SELECT
    ts_ns, scope, process_id, name, value - lag(value) OVER w AS grown, ts_ns - lag(ts_ns) OVER w AS over_ns
  FROM os_counter
  WINDOW w AS (PARTITION BY host, scope, process_id, cgroup, name ORDER BY ts_ns)
), stall AS (
  SELECT ts_ns, grown >= 0.01 * over_ns AS is_short FROM growth
  WHERE scope = 'system' AND name = 'memory_stall_some' AND over_ns > 0
), faulted AS (
  SELECT ts_ns, process_id, grown AS faults FROM growth WHERE name = 'major_faults' AND over_ns > 0
), throttled AS (
  -- Of any cgroup.
  SELECT ts_ns, ts_ns - over_ns AS from_ns FROM growth
  WHERE name = 'quota_throttled' AND over_ns > 0 AND grown >= 0.01 * over_ns
), sampled AS (
  SELECT
    c.*, s.layer AS sampled_layer, s.in_kernel AS sampled_in_kernel,
    coalesce(s.team_works, false) AS team_works, NULL AS memory_is_short, NULL AS reads_pages, NULL AS is_throttled
  FROM (FROM critical_path WHERE cause = 'running') AS c
  {if_samples} LEFT JOIN sample AS s
    ON s.thread_id = c.thread_id AND s.path_id = c.path_id AND {if_samples_on}
  UNION ALL
  SELECT c.*, NULL, NULL, false, m.is_short, f.faults > 0, NULL
  FROM (FROM critical_path WHERE cause = 'blocked') AS c
  ASOF LEFT JOIN stall AS m ON m.ts_ns >= c.start_ns
  ASOF LEFT JOIN faulted AS f ON f.process_id = c.process_id AND f.ts_ns >= c.start_ns
  UNION ALL
  SELECT c.*, NULL, NULL, false, NULL, NULL, q.from_ns <= c.start_ns
  FROM (FROM critical_path WHERE cause = 'cpu_wait') AS c
  {if_quota} LEFT JOIN throttled AS q ON {if_quota_on}
  UNION ALL
  SELECT *, NULL, NULL, false, NULL, NULL, NULL FROM critical_path
  WHERE cause NOT IN ('running', 'blocked', 'cpu_wait')
), watched AS (
  -- Threads that lead and whose waits for what others make are phases: those that learn or act.
  SELECT DISTINCT o.thread_id
  FROM operation_coded AS o JOIN operation_path AS n ON n.path_id = o.path_id
  WHERE n.source = 'auto' AND n.name IN ('backpropagation', 'inference')
    AND o.thread_id IN (SELECT thread_id FROM lead)
), woken AS (
  SELECT s.thread_id, s.start_ns, t.process_id AS waker_process_id
  FROM thread_state_coded AS s JOIN thread AS t ON t.thread_id = s.waker_thread_id
  WHERE s.thread_id IN (SELECT waiter_thread_id FROM critical_path WHERE wait = 'lock')
), lock_wait AS (
  -- Somebody waits for a lock. The leading thread is handed over what a phase says that it waits for, by a condition,
  -- which is made of locks; and so is whoever a thread of its own process wakes, while the path is in another one.
  -- Where no phase says so, and the path is on another thread of Python in its process, that one has the lock.
  SELECT
    c.iteration_id, c.start_ns,
    coalesce(c.is_watched AND o.phase = 'wait', false)
      OR coalesce(b.waker_process_id = w.process_id AND c.process_id <> w.process_id, false) AS is_handed_over,
    c.is_watched AND o.phase IS DISTINCT FROM 'wait' AND c.process_id IN (SELECT process_id FROM lead)
      AND c.thread_id IN (SELECT thread_id FROM python_thread) AS is_locked
  FROM (
    SELECT *, waiter_thread_id IN (SELECT thread_id FROM watched) AS is_watched FROM critical_path
    WHERE wait = 'lock' AND thread_id <> waiter_thread_id
  ) AS c
  JOIN thread AS w ON w.thread_id = c.waiter_thread_id
  ASOF LEFT JOIN (
    SELECT o.thread_id, o.ts_ns, p.phase
    FROM _operation_change AS o LEFT JOIN _phase AS p ON p.path_id = o.path_id
    WHERE o.thread_id IN (SELECT thread_id FROM lead)
  ) AS o ON o.thread_id = c.waiter_thread_id AND o.ts_ns <= c.start_ns
  ASOF LEFT JOIN woken AS b ON b.thread_id = c.waiter_thread_id AND b.start_ns >= c.end_ns
), question AS (
  -- Waits of the leading thread, each numbered by the streak that it is in: there another one follows at once.
  SELECT
    thread_id, start_ns, end_ns,
    count(CASE WHEN start_ns - before_ns <= 20000 THEN NULL ELSE 1 END)
      OVER (PARTITION BY thread_id ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS streak
  FROM (
    SELECT
      o.thread_id, o.start_ns, o.end_ns,
      lag(o.end_ns) OVER (PARTITION BY o.thread_id ORDER BY o.start_ns) AS before_ns
    FROM operation_coded AS o JOIN _phase AS p ON p.path_id = o.path_id
    WHERE p.phase = 'wait' AND o.thread_id IN (SELECT thread_id FROM watched)
  )
), asking AS (
  -- So many are no messages of as many workers, and so short that nobody slept in them.
  SELECT thread_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM question
  GROUP BY thread_id, streak
  HAVING count(*) >= 200 AND count(*) FILTER (WHERE end_ns - start_ns <= 20000) >= 0.9 * count(*)
), asked AS (
  SELECT DISTINCT i.iteration_id
  FROM iteration AS i
  JOIN asking AS a ON a.thread_id = i.thread_id AND a.start_ns < i.end_ns AND a.end_ns > i.start_ns
), born AS (
  -- Processes that were started while the leading one iterated.
  SELECT p.process_id, p.start_ns
  FROM process AS p
  CROSS JOIN (SELECT min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM iteration) AS w
  WHERE p.start_ns > w.start_ns AND p.start_ns < w.end_ns AND p.process_id NOT IN (SELECT process_id FROM lead)
), first_phase AS (
  SELECT t.process_id, min(o.start_ns) AS ts_ns
  FROM operation_coded AS o
  JOIN _phase AS n ON n.path_id = o.path_id
  JOIN thread AS t ON t.thread_id = o.thread_id
  WHERE n.phase IS NOT NULL AND t.process_id IN (SELECT process_id FROM born)
  GROUP BY t.process_id
), import_sample AS (
  SELECT
    b.process_id, s.ts_ns,
    array_to_string(k.frames, ' ') LIKE '%<frozen importlib._bootstrap%' AS imports
  FROM cpu_sample AS s
  JOIN thread AS t ON t.thread_id = s.thread_id
  JOIN born AS b ON b.process_id = t.process_id
  LEFT JOIN stack AS k ON k.stack_id = s.stack_id
), imported AS (
  -- Until when a process mostly imports: where most more samples before are in imports than not. Without
  -- a stack it is in no Python code: the interpreter starts, or ends.
  SELECT process_id, arg_max(ts_ns, (more, -ts_ns)) AS ts_ns
  FROM (
    SELECT
      process_id, ts_ns,
      sum(CASE imports WHEN true THEN 1 WHEN false THEN -1 ELSE 0 END) OVER (PARTITION BY process_id ORDER BY ts_ns) AS more
    FROM import_sample
  )
  GROUP BY process_id HAVING max(more) > 0
), starting AS (
  SELECT b.process_id, coalesce(f.ts_ns, i.ts_ns) AS ready_ns
  FROM born AS b
  LEFT JOIN first_phase AS f ON f.process_id = b.process_id
  LEFT JOIN imported AS i ON i.process_id = b.process_id
  WHERE coalesce(f.ts_ns, i.ts_ns) IS NOT NULL
)
SELECT
  c.*,
  p.phase,
  coalesce(c.path_id, 0) <> 0 AS is_marked,
  -- A piece that lasts beyond it counts where most of it lies.
  coalesce(c.start_ns / 2 + c.end_ns / 2 < b.ready_ns, false) AS is_starting,
  c.process_id IN (SELECT process_id FROM lead) AS is_lead,
  c.thread_id IN (SELECT thread_id FROM lead) AS leads,
  c.thread_id IN (FROM python_thread) AS of_python,
  EXISTS (FROM worker) AS has_workers,
  c.process_id IN (SELECT process_id FROM simulating) AS simulates,
  c.process_id IN (SELECT process_id FROM learning) AS learns,
  EXISTS (FROM learning WHERE process_id IN (SELECT process_id FROM lead)) AS lead_learns,
  w.process_id AS waiter_process_id,
  c.by_process_id = c.process_id AS cpu_had_by_own_process,
  c.by_thread_id IN (FROM in_python) AND c.thread_id IN (FROM in_python) AS both_in_python,
  c.by_thread_id IN (FROM spinner) AS cpu_had_by_spinner,
  c.by_thread_id IN (FROM python_thread) AND c.thread_id IN (FROM python_thread) AS both_of_python,
  coalesce(k.is_locked, false) AS is_locked,
  coalesce(k.is_handed_over, false) AS is_handed_over,
  -- A question, or what lies between two.
  a.iteration_id IS NOT NULL AND c.duration_ns <= 20000 AS is_asking,
  g.thread_id IS NOT NULL AND c.start_ns < g.next_ns AND c.cause IN ('running', 'not_measured') AS is_launching,
  coalesce(h.queue_is_empty, false) AS queue_is_empty,
  coalesce(h.syncs_often, false) AS syncs_often,
  coalesce(c.cause = 'gpu' AND c.gpu_name ILIKE '%nccl%', false) AS is_collective,
  coalesce(c.gpu_kind IN ('memcpy', 'memset'), false)
    OR (m.thread_id IS NOT NULL AND c.start_ns < m.end_ns AND c.cause IN ('running', 'not_measured')) AS is_copy
FROM sampled AS c
LEFT JOIN _phase AS p ON p.path_id = c.path_id
LEFT JOIN thread AS w ON w.thread_id = c.waiter_thread_id
LEFT JOIN habit AS h ON h.process_id = c.process_id
LEFT JOIN starting AS b ON b.process_id = c.process_id
LEFT JOIN lock_wait AS k ON k.iteration_id = c.iteration_id AND k.start_ns = c.start_ns
LEFT JOIN asked AS a ON a.iteration_id = c.iteration_id
{if_gpu} LEFT JOIN launch_gap AS g ON g.thread_id = c.thread_id AND {if_gpu_on_launch}
{if_gpu} LEFT JOIN copying AS m ON m.thread_id = c.thread_id AND {if_gpu_on_copy};
COMMENT ON VIEW _limit_fact IS 'Private: may change without notice. Each piece of the critical path, with what the rules of the limits ask';

-- The first limit of the catalogue whose rule holds.
CREATE VIEW limit_piece AS
SELECT
  iteration_id, start_ns, end_ns, duration_ns, process_id, thread_id, device_id, operation, cause,
  CASE
    {rules}
  END AS code
FROM _limit_fact;
COMMENT ON VIEW limit_piece IS 'Each piece of the critical path, and the limit that it counts for: docs/findings.md';
COMMENT ON COLUMN limit_piece.iteration_id IS 'The iteration';
COMMENT ON COLUMN limit_piece.start_ns IS 'Start of the piece';
COMMENT ON COLUMN limit_piece.end_ns IS 'End of the piece';
COMMENT ON COLUMN limit_piece.duration_ns IS 'Its length';
COMMENT ON COLUMN limit_piece.process_id IS 'The process that the path is in; NULL: it is on a GPU';
COMMENT ON COLUMN limit_piece.thread_id IS 'The thread that it is on; NULL: it is on a GPU';
COMMENT ON COLUMN limit_piece.device_id IS 'The GPU that it is on; NULL: it is on a thread';
COMMENT ON COLUMN limit_piece.operation IS 'The innermost operation open there';
COMMENT ON COLUMN limit_piece.cause IS 'What took the time: critical_path';
COMMENT ON COLUMN limit_piece.code IS 'The limit: docs/findings.md explains each';
