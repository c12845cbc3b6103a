-- The Python functions that half of the samples of an iteration's path or more are in, with what they called, the
-- innermost first: of ten samples on. {iteration_id} is the iteration.
WITH sampled AS (
  SELECT k.frames
  FROM (SELECT thread_id, ts_ns, stack_id FROM cpu_sample_coded) AS s
  ASOF JOIN (
    SELECT thread_id, start_ns, end_ns FROM critical_path_coded
    WHERE iteration_id = {iteration_id} AND thread_id IS NOT NULL
  ) AS c ON c.thread_id = s.thread_id AND c.start_ns <= s.ts_ns
  LEFT JOIN stack AS k ON k.stack_id = s.stack_id
  WHERE s.ts_ns < c.end_ns
), around AS (
  SELECT
    unnest(list_distinct(frames)) AS function, frames,
    (SELECT count(*) FROM sampled) AS samples
  FROM sampled
)
SELECT
  function,
  count(*) FILTER (WHERE frames[-1] = function) / samples AS self_share,
  count(*) / samples AS total_share
FROM around
WHERE function <> '...'
GROUP BY function, samples
HAVING samples >= 10 AND count(*) >= 0.5 * samples
ORDER BY avg(len(frames) - list_position(frames, function)), function
