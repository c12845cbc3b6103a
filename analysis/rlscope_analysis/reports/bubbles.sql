-- What each process did in each phase of the leading one, by its leading thread, and who was last.
WITH span AS (
  SELECT thread_id, start_ns, end_ns FROM _training_span
), change AS (
  -- Nothing is open before the first; the span itself begins somewhere in one.
  SELECT o.ts_ns, o.path_id FROM _operation_change AS o WHERE o.thread_id = (SELECT thread_id FROM span)
  UNION ALL
  SELECT -9223372036854775807, 0
), piece AS (
  SELECT
    greatest(c.ts_ns, w.start_ns) AS start_ns,
    least(lead(c.ts_ns, 1, w.end_ns) OVER (ORDER BY c.ts_ns), w.end_ns) AS end_ns, c.path_id
  FROM change AS c CROSS JOIN span AS w
), phased AS (
  SELECT
    row_number() OVER (ORDER BY p.start_ns) AS piece_id, p.start_ns, p.end_ns,
    CASE WHEN p.path_id = 0 THEN '(no phase)' ELSE coalesce(n.phase, n.name, '(no phase)') END AS phase
  FROM piece AS p LEFT JOIN _phase AS n ON n.path_id = p.path_id
  WHERE p.start_ns < p.end_ns
), member AS (
  SELECT p.process_id, l.thread_id, t.start_ns, t.end_ns
  FROM training_process AS p
  JOIN _leading_thread AS l ON l.process_id = p.process_id
  JOIN thread AS t ON t.thread_id = l.thread_id
), present AS (
  SELECT
    m.process_id, i.phase,
    sum(least(i.end_ns, m.end_ns) - greatest(i.start_ns, m.start_ns)) AS time_ns
  FROM phased AS i JOIN member AS m ON i.start_ns < m.end_ns AND m.start_ns < i.end_ns
  GROUP BY ALL
), woken AS (
  SELECT s.thread_id, s.start_ns AS ts_ns, s.waker_thread_id, k.process_id AS waker_process_id
  FROM thread_state_coded AS s JOIN thread AS k ON k.thread_id = s.waker_thread_id
  WHERE s.state = 'runnable'
), state AS (
  SELECT
    m.process_id, m.thread_id, s.start_ns, s.end_ns, s.state::VARCHAR AS state,
    k.thread_id AS waker_thread_id, k.process_id AS waker_process_id
  FROM member AS m
  JOIN span AS w ON true
  JOIN _state_step AS s ON s.thread_id = m.thread_id AND s.start_ns < w.end_ns AND s.end_ns > w.start_ns
  LEFT JOIN thread AS k ON k.thread_id = s.next_waker_thread_id AND s.state IN ('sleeping', 'blocked')
), meant AS (
  -- Threads of its own that it waited for may have waited for another process meanwhile: gloo has two
  -- of them between the one that trains and the network. Who has the GIL is nobody's messenger.
  SELECT
    s.process_id, s.thread_id, s.start_ns, s.end_ns, s.state,
    CASE
      WHEN s.waker_process_id <> s.process_id THEN s.waker_process_id
      WHEN g.thread_id IS NOT NULL THEN NULL
      WHEN a.ts_ns >= s.start_ns AND a.waker_process_id <> s.process_id THEN a.waker_process_id
      WHEN b.ts_ns >= s.start_ns AND b.waker_process_id <> s.process_id THEN b.waker_process_id
      WHEN c.ts_ns >= s.start_ns AND c.waker_process_id <> s.process_id THEN c.waker_process_id
    END AS for_process_id
  FROM state AS s
  LEFT JOIN wait_coded AS g ON g.thread_id = s.thread_id AND g.end_ns = s.end_ns AND g.kind = 'gil'
  ASOF LEFT JOIN woken AS a ON a.thread_id = s.waker_thread_id AND a.ts_ns <= s.end_ns
  ASOF LEFT JOIN woken AS b ON b.thread_id = a.waker_thread_id AND b.ts_ns <= a.ts_ns
  ASOF LEFT JOIN woken AS c ON c.thread_id = b.waker_thread_id AND c.ts_ns <= b.ts_ns
), cut AS (
  SELECT
    i.piece_id, i.phase, m.process_id, m.thread_id, m.state, m.for_process_id,
    least(i.end_ns, m.end_ns) - greatest(i.start_ns, m.start_ns) AS time_ns,
    CASE WHEN m.end_ns <= i.end_ns THEN m.end_ns END AS ended_ns
  FROM phased AS i JOIN meant AS m ON i.start_ns < m.end_ns AND m.start_ns < i.end_ns
), spent AS (
  SELECT
    phase, process_id,
    coalesce(sum(time_ns) FILTER (WHERE state = 'running'), 0) AS running_ns,
    coalesce(sum(time_ns) FILTER (WHERE state = 'runnable'), 0) AS queued_ns,
    coalesce(sum(time_ns) FILTER (WHERE for_process_id IS NOT NULL), 0) AS waits_ns,
    coalesce(sum(time_ns) FILTER (WHERE state IN ('sleeping', 'blocked') AND for_process_id IS NULL), 0) AS idle_ns
  FROM cut GROUP BY ALL
), longest AS (
  SELECT phase, process_id, arg_max(for_process_id, (time_ns, -for_process_id)) AS for_process_id
  FROM (
    SELECT phase, process_id, for_process_id, sum(time_ns) AS time_ns
    FROM cut WHERE for_process_id IS NOT NULL GROUP BY ALL
  )
  GROUP BY ALL
), last AS (
  -- Of the waits of the leading thread that end in a piece the last one: who ended it.
  SELECT phase, process_id, count(*) AS times_last
  FROM (
    SELECT phase, piece_id, arg_max(for_process_id, ended_ns) AS process_id
    FROM cut
    WHERE thread_id = (SELECT thread_id FROM span) AND for_process_id IS NOT NULL AND ended_ns IS NOT NULL
    GROUP BY phase, piece_id
  )
  GROUP BY ALL
)
SELECT
  e.phase, p.process_id, p.pid, p.name AS process, p.role,
  e.time_ns::BIGINT AS time_ns,
  CASE WHEN p.running_ns IS NOT NULL THEN coalesce(s.running_ns, 0)::BIGINT END AS running_ns,
  CASE WHEN p.running_ns IS NOT NULL THEN coalesce(s.queued_ns, 0)::BIGINT END AS runnable_ns,
  CASE WHEN p.running_ns IS NOT NULL THEN coalesce(s.waits_ns, 0)::BIGINT END AS waits_ns,
  CASE WHEN p.running_ns IS NOT NULL THEN coalesce(s.idle_ns, 0)::BIGINT END AS idle_ns,
  CASE
    WHEN p.running_ns IS NOT NULL
    THEN (e.time_ns - coalesce(s.running_ns + s.queued_ns + s.waits_ns + s.idle_ns, 0))::BIGINT
  END AS lost_ns,
  f.pid AS waits_for_pid, f.name AS waits_for,
  coalesce(l.times_last, 0)::BIGINT AS times_last
FROM present AS e
JOIN training_process AS p ON p.process_id = e.process_id
LEFT JOIN spent AS s ON s.phase = e.phase AND s.process_id = e.process_id
LEFT JOIN longest AS g ON g.phase = e.phase AND g.process_id = e.process_id
LEFT JOIN training_process AS f ON f.process_id = g.for_process_id
LEFT JOIN last AS l ON l.phase = e.phase AND l.process_id = e.process_id
ORDER BY
  max(e.time_ns) OVER (PARTITION BY e.phase) DESC, e.phase, p.is_lead DESC, p.role = 'other', p.number, p.process_id
