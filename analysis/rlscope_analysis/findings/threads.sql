-- What the rules of the catalogue may ask of stacks, threads, processes and iterations. In tables: one statement
-- for all would reserve the memory of each of its joins at once, and more than a recorder may have.
CREATE TABLE _limit_path AS
SELECT path_id, phase, phase = 'evaluation' OR path_id IN (SELECT path_id FROM _evaluation_path) AS evaluates
FROM _phase;

CREATE TABLE _limit_thread AS
WITH sampled AS (
  SELECT
    thread_id, count(*) FILTER (WHERE layer = 'python') AS in_python,
    count(*) FILTER (WHERE layer = 'spin') AS in_spin,
    count(*) FILTER (WHERE layer IN ('backend', 'spin')) AS in_backend, count(*) AS samples
  FROM cpu_sample GROUP BY thread_id
), arrived AS (
  -- Had its GPU finished all that the process had asked for when it was asked for this?
  SELECT
    a.process_id, l.from_ns,
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
)
SELECT
  t.thread_id, t.process_id,
  t.process_id IN (SELECT process_id FROM iteration) AS is_lead,
  t.thread_id IN (SELECT thread_id FROM iteration) AS leads,
  -- Threads that Python started, or that ran Python code; the others are of libraries, as teams of OpenMP are.
  t.python_name IS NOT NULL OR coalesce(t.tid = p.pid, false) OR coalesce(s.in_python > 0, false) AS of_python,
  -- Most of their samples are in Python code, or in loops that wait.
  coalesce(s.in_python >= 0.5 * s.samples, false) AS is_in_python,
  coalesce(s.in_spin >= 0.5 * s.samples, false) AS spins,
  coalesce(s.in_backend >= 0.5 * s.samples, false) AS computes,
  coalesce(m.simulates, false) AS simulates, coalesce(m.learns, false) AS learns,
  coalesce(h.queue_is_empty, false) AS queue_is_empty, coalesce(h.syncs_often, false) AS syncs_often
FROM thread AS t
LEFT JOIN process AS p ON p.process_id = t.process_id
LEFT JOIN sampled AS s ON s.thread_id = t.thread_id
LEFT JOIN _marked_process AS m ON m.process_id = t.process_id
LEFT JOIN habit AS h ON h.process_id = t.process_id;

-- Processes whose libraries compute with more threads than there are CPUs for them.
CREATE TABLE _limit_team AS
SELECT c.process_id
FROM (
  SELECT process_id, count(*) AS threads FROM _limit_thread WHERE computes AND NOT of_python GROUP BY process_id
) AS c
JOIN thread AS t ON t.process_id = c.process_id
JOIN thread_state_coded AS s ON s.thread_id = t.thread_id AND s.state = 'running'
GROUP BY c.process_id
-- The thread of Python for which they compute does so, too.
HAVING any_value(c.threads) + 1 > count(DISTINCT s.cpu);

-- Does the leading process wait for others inside its own simulation?
CREATE TABLE _limit_worker AS
SELECT DISTINCT c.process_id
FROM critical_path AS c
ASOF JOIN (
  SELECT o.thread_id, o.start_ns, o.end_ns
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id WHERE p.name = 'simulation'
) AS a ON a.thread_id = c.waiter_thread_id AND a.start_ns <= c.start_ns
WHERE c.start_ns < a.end_ns AND c.process_id NOT IN (SELECT process_id FROM iteration)
  AND c.waiter_thread_id IN (SELECT thread_id FROM iteration);

CREATE TABLE _limit_sample AS
WITH frame AS (
  -- Functions that pack and send, of Python, of vectors of environments, and of programs that do it by themselves.
  SELECT
    stack_id,
    regexp_matches(
      frames[-1],
      '\b_?(send|recv|receive|pack|unpack|dump|load|pickle|unpickle|serialize|deserialize|encode|decode)(s|all)?(_\w+)? \(|'
      || '\b(connection|reduction|queues?|socket|selectors|pickle|managers|pool|process|shared_memory|synchronize|'
      || 'popen_\w+|async_vector_env|subproc_vec_env)\.py:'
    ) AS may_be_message,
    -- Of those only multiprocessing: what `send` and `load` of a program do is known of workers alone.
    regexp_matches(frames[-1], '\((connection|reduction|queues|managers|synchronize)\.py:') AS is_message
  FROM stack_coded
), at_barrier AS (
  -- Spinning until others of its team are done, who all have their CPUs: with fewer threads it would do their work.
  SELECT
    s.thread_id, s.ts_ns,
    bool_or(i.state = 'running') AND NOT bool_or(i.state = 'runnable') AS team_works
  FROM cpu_sample AS s
  JOIN thread AS w ON w.thread_id = s.thread_id
  JOIN _limit_thread AS t ON t.process_id = w.process_id AND t.thread_id <> w.thread_id AND NOT t.of_python
  ASOF JOIN thread_state_coded AS i ON i.thread_id = t.thread_id AND i.start_ns <= s.ts_ns
  WHERE s.layer = 'spin' AND s.ts_ns < i.end_ns
    AND s.thread_id IN (SELECT thread_id FROM critical_path_coded)
  GROUP BY ALL
)
SELECT
  s.thread_id, s.ts_ns, s.layer, s.in_kernel, coalesce(o.path_id, 0) AS path_id, b.team_works,
  -- What a function of the program calls is its own, too: numpy in a rollout packs nothing.
  coalesce(NOT s.in_kernel AND NOT k.may_be_message, false) AS is_own_code,
  coalesce(k.is_message, false) AS is_message
FROM (
  SELECT thread_id, ts_ns, layer, in_kernel, stack_id FROM cpu_sample
  WHERE thread_id IN (SELECT thread_id FROM critical_path_coded)
) AS s
LEFT JOIN frame AS k ON k.stack_id = s.stack_id
ASOF LEFT JOIN _operation_change AS o ON o.thread_id = s.thread_id AND o.ts_ns <= s.ts_ns
LEFT JOIN at_barrier AS b ON b.thread_id = s.thread_id AND b.ts_ns = s.ts_ns;

-- Where threads wait for a disk at least half as long as they are in the OS kernel: that works for it.
CREATE TABLE _limit_disk AS
SELECT c.thread_id, c.path_id
FROM (
  SELECT
    thread_id, coalesce(path_id, 0) AS path_id,
    sum(CASE cause WHEN 'disk' THEN end_ns - start_ns ELSE 0 END) AS disk_ns,
    sum(CASE cause WHEN 'running' THEN end_ns - start_ns ELSE 0 END) AS running_ns
  FROM critical_path_coded WHERE cause IN ('disk', 'running') GROUP BY ALL
) AS c
JOIN (
  SELECT thread_id, path_id, avg(in_kernel::INTEGER) AS kernel_share FROM _limit_sample GROUP BY ALL
) AS s ON s.thread_id = c.thread_id AND s.path_id = c.path_id
WHERE c.disk_ns > 0 AND c.disk_ns >= 0.5 * s.kernel_share * c.running_ns;

-- Threads that lead and whose waits for what others make are phases: those that learn or act.
CREATE TABLE _limit_watched AS
SELECT DISTINCT o.thread_id
FROM operation_coded AS o JOIN operation_path AS n ON n.path_id = o.path_id
WHERE n.source = 'auto' AND n.name IN ('backpropagation', 'inference')
  AND o.thread_id IN (SELECT thread_id FROM iteration);

-- Somebody waits for a lock. The leading thread is handed over what a phase says that it waits for, by a condition,
-- which is made of locks; and so is whoever a thread of its own process wakes, while the path is in another one, and who
-- waits for a signal of another process.
-- Where no phase says so, and the path is on another thread of Python in its process, that one has the lock. Another
-- process that has a lock which only one can have, as that of a file, has it whatever it does meanwhile.
CREATE TABLE _limit_lock AS
WITH woken AS (
  SELECT s.thread_id, s.start_ns, t.process_id AS waker_process_id
  FROM thread_state_coded AS s JOIN thread AS t ON t.thread_id = s.waker_thread_id
  WHERE s.thread_id IN (SELECT waiter_thread_id FROM critical_path_coded WHERE wait = 'lock')
), waited AS (
  SELECT
    w.thread_id, w.start_ns, w.end_ns, w.lock_address IS NOT NULL AND h.thread_id IS NULL AS is_signal,
    w.is_mutex
  FROM wait_coded AS w
  LEFT JOIN _wait_for_holder AS h ON h.thread_id = w.thread_id AND h.start_ns = w.start_ns
  WHERE w.kind = 'lock'
    AND w.thread_id IN (SELECT waiter_thread_id FROM critical_path_coded WHERE wait = 'lock')
)
SELECT
  c.iteration_id, c.start_ns,
  coalesce(c.is_watched AND o.phase = 'wait', false)
    OR coalesce(b.waker_process_id = w.process_id AND t.process_id <> w.process_id, false)
    OR coalesce(h.is_signal AND t.process_id <> w.process_id, false) AS is_handed_over,
  (c.is_watched AND o.phase IS DISTINCT FROM 'wait' AND t.is_lead AND t.of_python)
    OR coalesce(h.is_mutex AND h.end_ns > c.start_ns AND t.process_id <> w.process_id, false) AS is_locked
FROM (
  SELECT *, waiter_thread_id IN (SELECT thread_id FROM _limit_watched) AS is_watched FROM critical_path_coded
  WHERE wait = 'lock' AND thread_id <> waiter_thread_id
) AS c
JOIN _limit_thread AS t ON t.thread_id = c.thread_id
JOIN _limit_thread AS w ON w.thread_id = c.waiter_thread_id
ASOF LEFT JOIN (
  SELECT o.thread_id, o.ts_ns, p.phase
  FROM _operation_change AS o LEFT JOIN _limit_path AS p ON p.path_id = o.path_id
  WHERE o.thread_id IN (SELECT thread_id FROM iteration)
) AS o ON o.thread_id = c.waiter_thread_id AND o.ts_ns <= c.start_ns
ASOF LEFT JOIN waited AS h ON h.thread_id = c.waiter_thread_id AND h.start_ns <= c.start_ns
ASOF LEFT JOIN woken AS b ON b.thread_id = c.waiter_thread_id AND b.start_ns >= c.end_ns;

-- Iterations in which the leading thread asks again and again whether there is a message.
CREATE TABLE _limit_asked AS
WITH question AS (
  -- Its waits, each numbered by the streak that it is in: there another one follows at once.
  SELECT
    thread_id, start_ns, end_ns,
    count(CASE WHEN start_ns - before_ns <= 20000 THEN NULL ELSE 1 END)
      OVER (PARTITION BY thread_id ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS streak
  FROM (
    SELECT
      o.thread_id, o.start_ns, o.end_ns,
      lag(o.end_ns) OVER (PARTITION BY o.thread_id ORDER BY o.start_ns) AS before_ns
    FROM operation_coded AS o JOIN _limit_path AS p ON p.path_id = o.path_id
    WHERE p.phase = 'wait' AND o.thread_id IN (SELECT thread_id FROM _limit_watched)
  )
), asking AS (
  -- So many are no messages of as many workers, and so short that nobody slept in them.
  SELECT thread_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM question
  GROUP BY thread_id, streak
  HAVING count(*) >= 200 AND count(*) FILTER (WHERE end_ns - start_ns <= 20000) >= 0.9 * count(*)
)
SELECT DISTINCT i.iteration_id
FROM iteration AS i
JOIN asking AS a ON a.thread_id = i.thread_id AND a.start_ns < i.end_ns AND a.end_ns > i.start_ns;

-- Until when processes start: those that were started while the leading one iterated, and that one where it does
-- not iterate. And since when those that ended meanwhile do nothing but end.
CREATE TABLE _limit_start AS
WITH born AS (
  SELECT p.process_id, false AS is_lead, p.end_ns < w.end_ns AS has_ended
  FROM process AS p
  CROSS JOIN (SELECT min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM iteration) AS w
  WHERE p.start_ns > w.start_ns AND p.start_ns < w.end_ns AND p.process_id NOT IN (SELECT process_id FROM iteration)
  UNION ALL
  SELECT process_id, true, false FROM iteration WHERE source = 'whole' AND process_id IS NOT NULL
), phases AS (
  SELECT t.process_id, min(o.start_ns) AS first_ns, max(o.end_ns) AS last_ns
  FROM operation_coded AS o
  JOIN _limit_path AS n ON n.path_id = o.path_id
  JOIN thread AS t ON t.thread_id = o.thread_id
  WHERE n.phase IS NOT NULL AND t.process_id IN (SELECT process_id FROM born WHERE NOT is_lead)
  GROUP BY t.process_id
), import_sample AS (
  SELECT
    b.process_id, s.ts_ns,
    array_to_string(k.frames, ' ') LIKE '%<frozen importlib._bootstrap%' AS imports,
    p.parent_process_id, p.name, p.end_ns - p.start_ns AS lived_ns,
    b.has_ended AND p.name SIMILAR TO 'python[0-9.]*' AS may_only_start
  FROM cpu_sample AS s
  JOIN thread AS t ON t.thread_id = s.thread_id
  JOIN born AS b ON b.process_id = t.process_id
  JOIN process AS p ON p.process_id = b.process_id
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
), only_started AS (
  -- Pythons that are started again and again, for so little that of all of them hardly a sample is in their code.
  -- Of such a short life few samples have functions; a Python that does nothing lives for 10 to 20 ms.
  SELECT p.process_id, p.end_ns AS ts_ns
  FROM born AS b
  JOIN process AS p ON p.process_id = b.process_id
  JOIN (
    SELECT parent_process_id, name FROM import_sample WHERE may_only_start GROUP BY ALL
    HAVING count(DISTINCT process_id) >= 20 AND avg(CASE imports WHEN false THEN 1 ELSE 0 END) < 0.2
      AND (avg(CASE imports WHEN true THEN 1 ELSE 0 END) >= 0.5 OR avg(lived_ns) < 20e6)
  ) AS g ON g.parent_process_id = p.parent_process_id AND g.name = p.name
  WHERE b.has_ended
)
SELECT
  b.process_id, coalesce(f.first_ns, e.ts_ns, i.ts_ns) AS ready_ns, CASE WHEN b.has_ended THEN f.last_ns END AS done_ns
FROM born AS b
LEFT JOIN phases AS f ON f.process_id = b.process_id
LEFT JOIN imported AS i ON i.process_id = b.process_id
LEFT JOIN only_started AS e ON e.process_id = b.process_id
WHERE coalesce(f.first_ns, e.ts_ns, i.ts_ns) IS NOT NULL;
