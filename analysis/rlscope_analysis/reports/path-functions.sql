-- Python functions on the critical path of the iterations but the first, by the limit that they count for, with
-- native code that they called: innermost (self), and on the stack at all.
WITH sampled AS (
  SELECT l.code, s.stack_id, count(*) AS n
  FROM cpu_sample_coded AS s
  ASOF JOIN limit_piece AS l ON l.thread_id = s.thread_id AND l.start_ns <= s.ts_ns
  WHERE s.ts_ns < l.end_ns AND l.iteration_id IN (SELECT iteration_id FROM _steady_iteration)
  GROUP BY ALL
), framed AS (
  SELECT s.code, s.n, k.frames
  FROM sampled AS s LEFT JOIN stack AS k ON k.stack_id = s.stack_id
), innermost AS (
  SELECT code, frames[-1] AS function, sum(n)::BIGINT AS n FROM framed GROUP BY ALL
), around AS (
  -- Once, also where it calls itself. NULL: there was none.
  SELECT code, unnest(coalesce(list_distinct(frames), [NULL])) AS function, n FROM framed
), every AS (
  SELECT code, sum(n)::BIGINT AS n FROM sampled GROUP BY code
)
SELECT
  e.code, a.function,
  coalesce(any_value(i.n), 0) AS self_samples, coalesce(any_value(i.n), 0) / e.n AS self_share,
  sum(a.n)::BIGINT AS total_samples, sum(a.n) / e.n AS total_share
FROM around AS a
JOIN every AS e ON e.code = a.code
LEFT JOIN innermost AS i ON i.code = a.code AND i.function IS NOT DISTINCT FROM a.function
GROUP BY e.code, e.n, a.function
-- The first six of each limit stand before the rest, so that none hides the others.
ORDER BY
  row_number() OVER (PARTITION BY e.code ORDER BY self_samples DESC, total_samples DESC, a.function NULLS FIRST) > 6,
  e.n DESC, e.code, self_samples DESC, total_samples DESC, a.function NULLS FIRST
