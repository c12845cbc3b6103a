-- What the leading thread did in the iterations, by phase: every instant of them once.
CREATE TABLE training_phase AS
WITH named AS (
  -- Of a program without phases its own ranges.
  SELECT path_id, label AS name FROM _phase
), part AS (
  SELECT
    coalesce(n.name, CASE WHEN s.state IN ('sleeping', 'blocked') THEN '(waiting)' ELSE '(no phase)' END) AS operation, s.start_ns, s.end_ns, s.state,
    s.end_ns - s.start_ns AS time_ns
  FROM _lead_segment AS s LEFT JOIN named AS n ON n.path_id = s.path_id
), sampled AS (
  SELECT
    p.operation,
    count(*) FILTER (WHERE c.layer = 'python') AS in_python, count(c.layer) AS samples
  FROM (SELECT ts_ns, layer FROM cpu_sample WHERE thread_id = (SELECT thread_id FROM _training_span)) AS c
  ASOF JOIN part AS p ON p.start_ns <= c.ts_ns
  WHERE c.ts_ns < p.end_ns
  GROUP BY p.operation
), instance AS (
  SELECT n.name AS operation, count(*) AS instances
  FROM operation_coded AS o
  JOIN named AS n ON n.path_id = o.path_id
  JOIN operation_path AS p ON p.path_id = o.path_id
  JOIN _training_span AS w ON w.thread_id = o.thread_id AND o.start_ns >= w.start_ns AND o.start_ns < w.end_ns
  WHERE p.name = n.name
  GROUP BY n.name
), added AS (
  SELECT
    operation, sum(time_ns)::BIGINT AS time_ns,
    coalesce(sum(time_ns) FILTER (WHERE state = 'running'), 0)::BIGINT AS running_ns,
    coalesce(sum(time_ns) FILTER (WHERE state = 'runnable'), 0)::BIGINT AS runnable_ns,
    coalesce(sum(time_ns) FILTER (WHERE state IN ('sleeping', 'blocked')), 0)::BIGINT AS waiting_ns,
    coalesce(sum(time_ns) FILTER (WHERE state = 'lost'), 0)::BIGINT AS lost_ns,
    bool_or(state IS NULL) AS is_unknown
  FROM part GROUP BY operation
)
SELECT
  a.operation, a.time_ns, a.time_ns / sum(a.time_ns) OVER () AS share,
  CASE WHEN NOT a.is_unknown THEN s.in_python / nullif(s.samples, 0) * a.running_ns / nullif(a.time_ns, 0) END AS python_share,
  CASE WHEN NOT a.is_unknown THEN (1 - s.in_python / nullif(s.samples, 0)) * a.running_ns / nullif(a.time_ns, 0) END AS native_share,
  CASE WHEN NOT a.is_unknown THEN a.runnable_ns / nullif(a.time_ns, 0) END AS queue_share,
  CASE WHEN NOT a.is_unknown THEN a.waiting_ns / nullif(a.time_ns, 0) END AS waits_share,
  CASE WHEN NOT a.is_unknown THEN a.lost_ns / nullif(a.time_ns, 0) END AS lost_share,
  i.instances, a.time_ns / i.instances AS each_ns
FROM added AS a
LEFT JOIN sampled AS s ON s.operation = a.operation
LEFT JOIN instance AS i ON i.operation = a.operation
ORDER BY a.time_ns DESC, a.operation;
COMMENT ON TABLE training_phase IS 'What the leading thread did while it iterated, by phase; of a program without phases by its own ranges. Of three iterations or more the first is left out';
COMMENT ON COLUMN training_phase.operation IS 'The phase; else the innermost range; (no phase): neither is open, (waiting): nor does it run';
COMMENT ON COLUMN training_phase.time_ns IS 'For how long: they add up to the time from the start of the first of these iterations to the end of the last';
COMMENT ON COLUMN training_phase.share IS 'The same as a part of that time';
COMMENT ON COLUMN training_phase.python_share IS 'Part of it on a CPU, in Python code, by samples; NULL: none fell into it';
COMMENT ON COLUMN training_phase.native_share IS 'Part of it on a CPU, in other code';
COMMENT ON COLUMN training_phase.queue_share IS 'Part of it waiting for a CPU';
COMMENT ON COLUMN training_phase.waits_share IS 'Part of it sleeping or blocked';
COMMENT ON COLUMN training_phase.lost_share IS 'Part of it whose records were lost';
COMMENT ON COLUMN training_phase.instances IS 'How many began there; NULL: it is none';
COMMENT ON COLUMN training_phase.each_ns IS 'time_ns per instance';
