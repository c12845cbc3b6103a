-- Steps in an evaluation have the name that the evaluation around them has.
CREATE OR REPLACE VIEW _evaluation_path AS
SELECT path_id FROM operation_path
WHERE name = 'simulation' AND source = 'auto'
  AND framework_name IN (SELECT framework_name FROM operation_path WHERE name = 'evaluation' AND source = 'auto');
COMMENT ON VIEW _evaluation_path IS 'Private: may change without notice. Where environments are stepped to evaluate, not to train';
COMMENT ON COLUMN _evaluation_path.path_id IS 'The stack of operations: operation_path';

-- How many environment steps each thread took, and whose they are. A vector environment of n counts n
-- steps for each of its own, and so do the workers that take them. A thread whose steps lie in those of
-- another, of its process or of one above it, works for that: so it is seen, and nothing else tells.
CREATE OR REPLACE VIEW environment_step AS
WITH RECURSIVE call AS (
  -- A step in two halves (step_async, step_wait) begins with the first, which counts none.
  SELECT
    thread_id, start_ns, end_ns, environment_steps AS steps,
    path_id IN (SELECT path_id FROM _evaluation_path) AS evaluates,
    CASE WHEN lag(environment_steps) OVER w = 0 THEN lag(start_ns) OVER w ELSE start_ns END AS begun_ns
  FROM operation_coded
  WHERE environment_steps IS NOT NULL
  WINDOW w AS (PARTITION BY thread_id ORDER BY start_ns)
), stepper AS (
  SELECT
    t.process_id, t.pid, c.thread_id, sum(c.steps)::BIGINT AS steps, count(*) AS calls,
    coalesce(sum(c.steps) FILTER (WHERE c.evaluates), 0)::BIGINT AS evaluation_steps,
    min(c.start_ns) AS first_ns, max(c.end_ns) AS last_ns
  FROM call AS c JOIN _thread_owner AS t ON t.thread_id = c.thread_id
  WHERE c.steps > 0
  GROUP BY t.process_id, t.pid, c.thread_id
), above AS (
  SELECT DISTINCT process_id, process_id AS above_id FROM stepper
  UNION
  SELECT a.process_id, p.parent_process_id
  FROM above AS a JOIN process AS p ON p.process_id = a.above_id
  WHERE p.parent_process_id IS NOT NULL
), pair AS (
  SELECT u.thread_id, v.thread_id AS outer_id
  FROM stepper AS u
  JOIN above AS a ON a.process_id = u.process_id
  JOIN stepper AS v ON v.process_id = a.above_id
  -- One step of a worker may be under way when the recording of the other ends.
  WHERE v.thread_id <> u.thread_id AND v.steps + 1 >= u.steps
), sample AS (
  SELECT thread_id, start_ns, end_ns FROM call WHERE steps > 0
  QUALIFY row_number() OVER (PARTITION BY thread_id ORDER BY start_ns) <= 1000
), asked AS (
  SELECT p.thread_id, p.outer_id, s.start_ns, s.end_ns
  FROM sample AS s JOIN pair AS p ON p.thread_id = s.thread_id
), reported AS (
  SELECT a.thread_id, a.outer_id, avg(CASE WHEN c.end_ns >= a.end_ns THEN 1 ELSE 0 END) AS share
  FROM asked AS a
  ASOF LEFT JOIN (FROM call WHERE steps > 0) AS c
    ON c.thread_id = a.outer_id AND c.begun_ns <= a.start_ns
  GROUP BY a.thread_id, a.outer_id
), working AS (
  SELECT thread_id, arg_max(outer_id, (share, -outer_id)) AS outer_id
  FROM reported WHERE share >= 0.9 GROUP BY thread_id
)
SELECT
  s.process_id, s.pid, s.thread_id, s.first_ns, s.last_ns, s.calls, s.steps,
  w.outer_id AS within_thread_id,
  CASE WHEN w.outer_id IS NULL THEN s.steps - s.evaluation_steps ELSE 0 END AS counted_steps,
  s.evaluation_steps
FROM stepper AS s LEFT JOIN working AS w ON w.thread_id = s.thread_id
ORDER BY s.thread_id;
COMMENT ON VIEW environment_step IS 'How many environment steps each thread took (operation.environment_steps). The run took the sum of counted_steps';
COMMENT ON COLUMN environment_step.process_id IS 'The process of the thread';
COMMENT ON COLUMN environment_step.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN environment_step.thread_id IS 'The thread';
COMMENT ON COLUMN environment_step.first_ns IS 'When its first step began';
COMMENT ON COLUMN environment_step.last_ns IS 'When its last step ended';
COMMENT ON COLUMN environment_step.calls IS 'How many operations were steps';
COMMENT ON COLUMN environment_step.steps IS 'Environment steps: as many as its environments took, n in a step of a vector of n';
COMMENT ON COLUMN environment_step.within_thread_id IS 'The thread whose vector environment it works for: nine in ten of its first thousand steps lie in steps of that; NULL: it works for none';
COMMENT ON COLUMN environment_step.counted_steps IS 'What it adds to the steps of the run: its own, without those of evaluations; 0 where they are those of the vector environment it works for';
COMMENT ON COLUMN environment_step.evaluation_steps IS 'Those of its steps that were taken in the phase evaluation';
