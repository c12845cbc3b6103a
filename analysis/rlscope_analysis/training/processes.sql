-- What each process did while the leading one iterated.
CREATE TABLE training_process AS
WITH span AS (
  SELECT process_id AS lead_id, start_ns, end_ns FROM _training_span
), added AS (
  SELECT
    s.thread_id,
    sum(least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns)) FILTER (WHERE s.state = 'running') AS running_ns,
    sum(least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns)) FILTER (WHERE s.state = 'runnable') AS queued_ns,
    sum(least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns))
      FILTER (WHERE s.state IN ('sleeping', 'blocked')) AS slept_ns
  FROM thread_state_coded AS s
  JOIN span AS w ON s.start_ns < w.end_ns AND s.end_ns > w.start_ns
  GROUP BY s.thread_id
), ran AS (
  SELECT t.process_id, sum(a.running_ns) AS time_ns
  FROM added AS a JOIN thread AS t ON t.thread_id = a.thread_id GROUP BY t.process_id
), sampled AS (
  SELECT t.process_id, count(*) FILTER (WHERE s.layer = 'spin') / count(*) AS spin_share
  FROM (SELECT thread_id, ts_ns, layer FROM cpu_sample) AS s
  JOIN span AS w ON s.ts_ns >= w.start_ns AND s.ts_ns < w.end_ns
  JOIN thread AS t ON t.thread_id = s.thread_id
  GROUP BY t.process_id
), slept AS (
  SELECT
    s.thread_id, s.next_waker_thread_id AS waker_thread_id,
    sum(least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns)) AS time_ns
  FROM _state_step AS s
  JOIN span AS w ON s.start_ns < w.end_ns AND s.end_ns > w.start_ns
  WHERE s.state IN ('sleeping', 'blocked') AND s.next_waker_thread_id IS NOT NULL
  GROUP BY s.thread_id, s.next_waker_thread_id
), waited AS (
  SELECT s.thread_id, k.process_id AS for_process_id, sum(s.time_ns) AS time_ns
  FROM slept AS s
  JOIN thread AS t ON t.thread_id = s.thread_id
  JOIN thread AS k ON k.thread_id = s.waker_thread_id AND k.process_id <> t.process_id
  GROUP BY ALL
), longest AS (
  SELECT thread_id, max(time_ns) AS time_ns, arg_max(for_process_id, (time_ns, -for_process_id)) AS process_id
  FROM waited GROUP BY thread_id
), known AS (
  SELECT
    p.process_id, p.pid, l.thread_id,
    CASE WHEN o.is_titled THEN p.title ELSE coalesce(p.python_name, s.script, p.name) END AS name,
    o.is_titled, w.end_ns - w.start_ns AS span_ns, w.lead_id,
    coalesce(m.simulates, false) AS simulates, coalesce(m.learns, false) AS learns,
    m.process_id IS NOT NULL AS is_marked,
    CASE WHEN coalesce(c.measured, false) THEN coalesce(r.time_ns, 0) END AS running_ns
  FROM process AS p
  -- A title is kept without the spaces and ends of lines around it.
  CROSS JOIN LATERAL (
    SELECT coalesce(p.title <> trim(p.command, ' ' || chr(9) || chr(10) || chr(13)), false) AS is_titled
  ) AS o
  -- Of an interpreter what it runs, after options that take no value.
  CROSS JOIN LATERAL (
    SELECT CASE WHEN starts_with(p.name, 'python') THEN
      nullif(parse_filename(regexp_extract(p.command, '^\S*python[0-9.]*(?: -[^cWX\s]\S*)* ([^-''"\s]\S*)', 1)), '')
    END AS script
  ) AS s
  JOIN span AS w
    ON coalesce(p.start_ns, w.start_ns) < w.end_ns AND coalesce(p.end_ns, w.end_ns) > w.start_ns
  LEFT JOIN _marked_process AS m ON m.process_id = p.process_id
  LEFT JOIN ran AS r ON r.process_id = p.process_id
  LEFT JOIN _leading_thread AS l ON l.process_id = p.process_id
  LEFT JOIN _measured AS c ON c.process_id = p.process_id AND c.kind = 'thread_state'
), named AS (
  SELECT
    *, process_id = lead_id AS is_lead,
    CASE
      WHEN process_id = lead_id THEN CASE WHEN learns THEN 'learner' ELSE 'main' END
      WHEN learns THEN 'learner'
      WHEN simulates THEN 'worker'
      ELSE 'other'
    END AS role
  FROM known
)
SELECT
  n.process_id, n.pid, n.name, n.is_titled, n.role, n.is_lead, n.is_marked,
  CASE WHEN n.role = 'worker' THEN row_number() OVER (PARTITION BY n.role ORDER BY n.process_id) - 1 END AS number,
  n.running_ns, n.running_ns / n.span_ns AS cpu_share,
  n.running_ns / n.span_ns * s.spin_share AS spin_share,
  CASE WHEN n.running_ns IS NOT NULL THEN coalesce(q.queued_ns, 0) / n.span_ns END AS queue_share,
  CASE WHEN n.running_ns IS NOT NULL THEN coalesce(q.slept_ns, 0) / n.span_ns END AS sleeps_share,
  CASE WHEN n.running_ns IS NOT NULL THEN coalesce(g.time_ns, 0) / n.span_ns END AS waits_share,
  g.process_id AS waits_for_process_id
FROM named AS n
LEFT JOIN added AS q ON q.thread_id = n.thread_id
LEFT JOIN sampled AS s ON s.process_id = n.process_id
LEFT JOIN longest AS g ON g.thread_id = n.thread_id
ORDER BY n.is_lead DESC, n.role = 'other', n.running_ns DESC NULLS LAST, n.process_id;
COMMENT ON TABLE training_process IS 'What each process did while the leading one iterated; queue, sleeps and waits are those of its leading thread. Of three iterations or more the first is left out';
COMMENT ON COLUMN training_process.process_id IS 'The process';
COMMENT ON COLUMN training_process.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN training_process.name IS 'The title that it gave itself, else what multiprocessing calls it, else the script that Python runs, else its name';
COMMENT ON COLUMN training_process.is_titled IS 'Whether it is a title';
COMMENT ON COLUMN training_process.role IS 'learner (has updates), worker (has environments), main (leads, without updates), other';
COMMENT ON COLUMN training_process.is_lead IS 'Whether the iterations are its own';
COMMENT ON COLUMN training_process.is_marked IS 'Whether it has operations';
COMMENT ON COLUMN training_process.number IS 'Of a worker: which one, from 0; NULL: another role';
COMMENT ON COLUMN training_process.running_ns IS 'CPU time of all its threads; NULL: not measured';
COMMENT ON COLUMN training_process.cpu_share IS 'The same as a part of the time: 1 is one CPU';
COMMENT ON COLUMN training_process.spin_share IS 'Part of cpu_share that only waits in a loop, by samples; NULL: none fell into it';
COMMENT ON COLUMN training_process.queue_share IS 'Part of the time in which its leading thread waited for a CPU';
COMMENT ON COLUMN training_process.sleeps_share IS 'Part in which that slept or was blocked';
COMMENT ON COLUMN training_process.waits_share IS 'Part of the time in which that did so until a thread of waits_for_process_id woke it';
COMMENT ON COLUMN training_process.waits_for_process_id IS 'The process it waited for longest; NULL: none';
