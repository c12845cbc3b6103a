-- Steps in an evaluation have the name that the evaluation around them has.
CREATE OR REPLACE VIEW _evaluation_path AS
SELECT path_id FROM operation_path
WHERE name = 'simulation' AND source = 'auto'
  AND framework_name IN (SELECT framework_name FROM operation_path WHERE name = 'evaluation' AND source = 'auto');
COMMENT ON VIEW _evaluation_path IS 'Private: may change without notice. Where environments are stepped to evaluate, not to train';
COMMENT ON COLUMN _evaluation_path.path_id IS 'The stack of operations: operation_path';

-- A process of its own that evaluates is called so: by multiprocessing, by Ray, by its script, or by the
-- functions that it is in while it takes its steps. That alone says little: candidates of an evolution
-- strategy are evaluated, too. So nothing may come of its steps: it learns nothing itself, and while it
-- lived it woke no other process of the trace and sent none a message that was read, but by its end.
-- That somebody else learns has to be seen.
CREATE OR REPLACE VIEW _evaluating_process AS
WITH stepper AS (
  SELECT DISTINCT t.process_id
  FROM operation_coded AS o JOIN thread AS t ON t.thread_id = o.thread_id
  WHERE o.environment_steps > 0
), learner AS (
  SELECT DISTINCT t.process_id
  FROM operation_coded AS o
  JOIN operation_path AS p ON p.path_id = o.path_id AND p.source = 'auto' AND p.name IN ('backpropagation', 'optimizer')
  JOIN thread AS t ON t.thread_id = o.thread_id
), evaluating_stack AS (
  SELECT stack_id FROM stack_coded
  WHERE len(list_filter(frames, lambda f: regexp_matches(split_part(f, ' (', 1), '(^|[._])(run_|do_|test_)?eval(uat(e|or|ion))?([._]|$)', 'i'))) > 0
), sampled AS (
  SELECT t.process_id, avg(CASE WHEN e.stack_id IS NULL THEN 0 ELSE 1 END) AS share
  FROM cpu_sample_coded AS c
  JOIN thread AS t ON t.thread_id = c.thread_id
  ASOF JOIN (SELECT thread_id, start_ns, end_ns FROM operation_coded WHERE environment_steps > 0) AS o
    ON o.thread_id = c.thread_id AND o.start_ns <= c.ts_ns
  LEFT JOIN evaluating_stack AS e ON e.stack_id = c.stack_id
  WHERE c.ts_ns < o.end_ns AND c.stack_id IS NOT NULL AND c.thread_id IN (
    SELECT x.thread_id FROM cpu_sample_coded AS x JOIN evaluating_stack AS y ON y.stack_id = x.stack_id
  )
  GROUP BY t.process_id
), named AS (
  SELECT p.process_id
  FROM process AS p LEFT JOIN sampled AS s ON s.process_id = p.process_id
  WHERE regexp_matches(p.python_name, '(^|[^a-z])eval(uat(e|or|ion))?([^a-z]|$)', 'i')
    OR regexp_matches(p.title, '^ray::\w*eval', 'i')
    OR regexp_matches(split_part(coalesce(p.title, p.command), '.py', 1), '[/ _-]eval(uat(e|or|ion))?[^/ ]*$', 'i')
    OR s.share >= 0.9
), candidate AS (
  SELECT t.process_id, t.thread_id
  FROM named AS n
  JOIN stepper AS s ON s.process_id = n.process_id
  JOIN process AS p ON p.process_id = n.process_id AND p.parent_process_id IS NOT NULL
  JOIN thread AS t ON t.process_id = n.process_id
  WHERE n.process_id NOT IN (SELECT process_id FROM learner) AND EXISTS (FROM learner)
), woken AS (
  SELECT c.process_id
  FROM thread_state_coded AS s
  JOIN candidate AS c ON c.thread_id = s.waker_thread_id
  JOIN thread AS t ON t.thread_id = s.thread_id AND t.process_id <> c.process_id
  LEFT JOIN wait_coded AS w ON w.thread_id = s.thread_id AND w.end_ns = s.start_ns
  WHERE w.kind IS NULL OR w.kind <> 'process'
), messaged AS (
  SELECT c.process_id
  FROM early_message AS m
  JOIN candidate AS c ON c.thread_id = m.sender_thread_id
  JOIN thread AS t ON t.thread_id = m.thread_id AND t.process_id <> c.process_id
)
SELECT DISTINCT process_id FROM candidate
WHERE process_id NOT IN (SELECT process_id FROM woken)
  AND process_id NOT IN (SELECT process_id FROM messaged)
  -- Where it was not recorded who wakes whom, nothing says that nothing came of them.
  AND EXISTS (FROM thread_state_coded WHERE waker_kind IS NOT NULL AND waker_kind <> 'unknown');
COMMENT ON VIEW _evaluating_process IS 'Private: may change without notice. Processes that take environment steps to evaluate, of which nothing comes for another process';
COMMENT ON COLUMN _evaluating_process.process_id IS 'The process';

-- How many environment steps each thread took, and whose they are. A vector environment of n counts n
-- steps for each of its own, and so do the workers that take them. A thread whose steps lie in those of
-- another, of its process or of one above it, works for that: so it is seen, and nothing else tells.
CREATE OR REPLACE VIEW environment_step AS
WITH RECURSIVE call AS (
  -- A step in two halves (step_async, step_wait) begins with the first, which counts none.
  SELECT
    thread_id, start_ns, end_ns, environment_steps AS steps,
    path_id IN (SELECT path_id FROM _evaluation_path) OR thread_id IN (
      SELECT t.thread_id FROM thread AS t JOIN _evaluating_process AS e ON e.process_id = t.process_id
    ) AS evaluates,
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
COMMENT ON COLUMN environment_step.evaluation_steps IS 'Those of its steps that were taken in the phase evaluation, or in a process that only evaluates';
