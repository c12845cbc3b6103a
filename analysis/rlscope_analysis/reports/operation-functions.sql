-- Python functions of each operation by the samples that found them innermost.
WITH placed AS (
  SELECT s.stack_id, s.layer, o.path_id
  FROM cpu_sample_coded AS s
  ASOF LEFT JOIN _operation_change AS o ON o.thread_id = s.thread_id AND o.ts_ns <= s.ts_ns
), sampled AS (
  SELECT coalesce(path_id, 0) AS path_id, stack_id, layer, count(*) AS n FROM placed GROUP BY ALL
), named AS (
  SELECT
    CASE WHEN s.path_id = 0 THEN '(unannotated)' ELSE p.name END AS operation,
    k.leaf AS function,
    s.layer, s.n
  FROM sampled AS s
  LEFT JOIN stack AS k ON k.stack_id = s.stack_id
  LEFT JOIN operation_path AS p ON p.path_id = s.path_id
)
SELECT
  operation, function, named.layer::VARCHAR AS layer,
  sum(n)::BIGINT AS samples,
  sum(n) / sum(sum(n)) OVER (PARTITION BY operation) AS operation_share,
  sum(n) / sum(sum(n)) OVER () AS share
FROM named
GROUP BY operation, function, named.layer
/* of_operation */
ORDER BY sum(sum(n)) OVER (PARTITION BY operation) DESC, operation, samples DESC, function NULLS FIRST, named.layer NULLS FIRST
