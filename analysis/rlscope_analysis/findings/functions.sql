-- The function that the leading thread is in, outside of phases in which it acts or learns, for far longer than any one
-- cause of it takes: the causes alone would not tell what to change. For each sample that is the outermost function on
-- its stack that has no such phase inside; where all have, the innermost, which then counts for what it does itself.
CREATE TABLE limit_function AS
WITH span AS (
  FROM _training_span WHERE {has_samples}
), change AS (
  SELECT o.ts_ns, coalesce(p.phase, 'data') NOT IN ('data', 'wait') AS is_phase
  FROM _operation_change AS o
  JOIN span AS w ON w.thread_id = o.thread_id
  LEFT JOIN _limit_path AS p ON p.path_id = o.path_id
), ran AS (
  SELECT s.start_ns, s.end_ns, lag(s.end_ns) OVER (ORDER BY s.start_ns) AS before_ns
  FROM thread_state_coded AS s JOIN span AS w ON w.thread_id = s.thread_id
  WHERE s.state = 'running' AND s.end_ns > w.start_ns AND s.start_ns < w.end_ns
), piece AS (
  -- What others outside of the program take has names that say more.
  SELECT
    l.iteration_id, l.process_id, l.code, l.start_ns, l.end_ns, l.duration_ns,
    l.thread_id = w.thread_id AND l.cause = 'running' AS is_running
  FROM limit_piece AS l
  JOIN _steady_iteration AS i ON i.iteration_id = l.iteration_id
  CROSS JOIN span AS w
  ASOF LEFT JOIN change AS c ON c.ts_ns <= l.start_ns
  WHERE NOT coalesce(c.is_phase, false) AND l.code NOT IN ({code_of_others})
), sampled AS (
  SELECT s.ts_ns, k.frames, coalesce(c.is_phase, false) AS is_phase
  FROM cpu_sample_coded AS s
  JOIN span AS w ON w.thread_id = s.thread_id AND s.ts_ns >= w.start_ns AND s.ts_ns < w.end_ns
  JOIN stack AS k ON k.stack_id = s.stack_id
  ASOF LEFT JOIN change AS c ON c.ts_ns <= s.ts_ns
  -- Where the program is seldom outside of phases no function can hold it up there.
  WHERE (SELECT sum(duration_ns) FROM piece) >= 0.1 * (SELECT sum(time_ns) FROM _steady_iteration)
), framed AS (
  -- Whatever line of it.
  SELECT ts_ns, is_phase, regexp_replace(frame, ':[0-9]+[)]$', ')') AS function, min(depth) AS depth
  FROM (
    SELECT ts_ns, is_phase, unnest(frames) AS frame, generate_subscripts(frames, 1) AS depth FROM sampled
  )
  WHERE frame LIKE '% (%)' GROUP BY ALL
), outside AS (
  -- A sample at the edge of a phase may fall on its other side, and a phase end a little late.
  SELECT function FROM framed GROUP BY function HAVING avg(is_phase::INTEGER) <= 0.1
), placed AS (
  SELECT
    f.ts_ns, coalesce(arg_min(f.function, f.depth) FILTER (WHERE o.function IS NOT NULL), arg_max(f.function, f.depth))
      AS function
  FROM framed AS f LEFT JOIN outside AS o ON o.function = f.function
  -- Where there are no phases, all that the program does is outside of them.
  WHERE NOT f.is_phase AND EXISTS (FROM sampled WHERE is_phase) GROUP BY f.ts_ns
), ran_in AS (
  SELECT p.code, s.function, count(*) / sum(count(*)) OVER (PARTITION BY p.code) AS part
  FROM placed AS s ASOF JOIN (FROM piece WHERE is_running) AS p ON p.start_ns <= s.ts_ns
  WHERE s.ts_ns < p.end_ns GROUP BY p.code, s.function
), beside AS (
  -- In which function a thread waits nothing says but the samples just before and after: each of its waits begins when
  -- it ran last.
  SELECT s.function, unnest([
    CASE WHEN s.ts_ns - r.start_ns <= 50000 THEN r.before_ns END,
    CASE WHEN r.end_ns - s.ts_ns <= 50000 THEN r.end_ns END
  ]) AS start_ns
  FROM placed AS s ASOF JOIN ran AS r ON r.start_ns <= s.ts_ns WHERE s.ts_ns < r.end_ns
), waited AS (
  SELECT r.end_ns AS start_ns, p.code, sum(p.duration_ns) AS time_ns
  FROM (FROM piece WHERE NOT is_running) AS p ASOF JOIN ran AS r ON r.end_ns <= p.start_ns
  GROUP BY ALL
), waited_in AS (
  SELECT code, function, sum(time_ns) / sum(sum(time_ns)) OVER (PARTITION BY code) AS part
  FROM beside JOIN waited USING (start_ns)
  GROUP BY code, function
  -- Of fewer it is not known.
  QUALIFY sum(count(*)) OVER (PARTITION BY code) >= 5
), held AS (
  SELECT p.iteration_id, p.process_id, p.code, n.function, sum(p.duration_ns * n.part)::BIGINT AS time_ns
  FROM piece AS p
  JOIN (
    SELECT true AS is_running, code, function, part FROM ran_in
    UNION ALL SELECT false, code, function, part FROM waited_in
  ) AS n ON n.code = p.code AND n.is_running = p.is_running
  GROUP BY ALL
), whole AS (
  SELECT function, sum(time_ns) AS time_ns
  FROM (SELECT function, code, sum(time_ns) AS time_ns FROM held GROUP BY ALL)
  -- Who only sends and waits is told by what is waited for.
  WHERE NOT regexp_matches(function, '[(](connection|reduction|queues?|managers|pool|process|synchronize|threading)[.]py[)]')
  GROUP BY function
  -- Where one cause is most of it, that cause says more; so do messages, and what workers and GPUs do meanwhile.
  HAVING max(time_ns) < 0.6 * sum(time_ns)
    AND arg_max(code, time_ns) <> 'message_overhead'
    AND coalesce(sum(time_ns) FILTER (WHERE code NOT IN ({code_of_function})), 0) < 0.1 * sum(time_ns)
    AND sum(time_ns) >= 0.1 * (SELECT sum(time_ns) FROM _steady_iteration)
    AND function IN (SELECT function FROM placed GROUP BY function HAVING count(*) >= 20)
), longest AS (
  SELECT arg_max(function, (time_ns, function)) AS function FROM whole
), own AS (
  -- What a library calls of the program, as a callback, is called by its name there.
  SELECT f.function
  FROM framed AS f
  JOIN placed AS p ON p.ts_ns = f.ts_ns AND p.function = (SELECT function FROM longest)
  JOIN outside AS o ON o.function = f.function
  WHERE ends_with(f.function, (
    SELECT mode(regexp_extract(frames[1], '([(].*):[0-9]+[)]$', 1) || ')') FROM sampled
    WHERE frames[1] LIKE '<module> (%'
  ))
  GROUP BY f.function
  HAVING count(*) >= 0.9 * (SELECT count(*) FROM placed WHERE function = (SELECT function FROM longest))
  ORDER BY avg(f.depth), f.function LIMIT 1
)
SELECT
  iteration_id, process_id, code, coalesce((SELECT function FROM own), function) AS function, time_ns
FROM held
WHERE time_ns > 0 AND code IN ({code_of_function}) AND function = (SELECT function FROM longest);
COMMENT ON TABLE limit_function IS 'The function that the leading thread is in, and neither acts nor learns, for far longer than any one cause of it takes: what of other limits counts for one_function instead. The time of each cause is shared out by samples';
COMMENT ON COLUMN limit_function.iteration_id IS 'The iteration';
COMMENT ON COLUMN limit_function.process_id IS 'The process that the path is in';
COMMENT ON COLUMN limit_function.code IS 'The limit that it would count for: docs/findings.md explains each';
COMMENT ON COLUMN limit_function.function IS 'The function, with its file';
COMMENT ON COLUMN limit_function.time_ns IS 'For how long';
