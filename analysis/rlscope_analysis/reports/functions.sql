-- Python functions by the samples that found them, native code that they called included.
WITH sampled AS (
  SELECT stack_id, count(*) AS n FROM cpu_sample_coded GROUP BY stack_id
), framed AS (
  SELECT s.n, k.frames
  FROM sampled AS s LEFT JOIN stack AS k ON k.stack_id = s.stack_id
), innermost AS (
  SELECT frames[-1] AS function, sum(n)::BIGINT AS n FROM framed GROUP BY ALL
), around AS (
  -- Once, also where it calls itself. NULL: there was none.
  SELECT unnest(coalesce(list_distinct(frames), [NULL])) AS function, n FROM framed
), inclusive AS (
  SELECT function, sum(n)::BIGINT AS n FROM around GROUP BY ALL
), every AS (
  SELECT sum(n)::BIGINT AS n FROM sampled
)
SELECT
  f.function,
  coalesce(i.n, 0) AS self_samples,
  coalesce(i.n, 0) / e.n AS self_share,
  sqrt(coalesce(i.n, 0) / e.n * (1 - coalesce(i.n, 0) / e.n) / e.n) AS self_stderr_share,
  f.n AS total_samples,
  f.n / e.n AS total_share,
  sqrt(f.n / e.n * (1 - f.n / e.n) / e.n) AS total_stderr_share
FROM inclusive AS f CROSS JOIN every AS e
LEFT JOIN innermost AS i ON i.function IS NOT DISTINCT FROM f.function
ORDER BY self_samples DESC, total_samples DESC, f.function NULLS FIRST
