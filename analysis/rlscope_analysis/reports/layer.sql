-- What the CPUs ran, by operation: the layer of the innermost known call, or what samples found.
-- From breakdown: also where nobody measured whether a GPU worked, this is all of the time on a CPU.
SELECT
  operation,
  nullif(bucket, 'running') AS layer,
  CASE WHEN gpu_busy THEN 'CPU+GPU' WHEN NOT gpu_busy THEN 'CPU' END AS resource,
  sum(time_ns)::BIGINT AS time_ns,
  sum(time_ns) / nullif(sum(sum(time_ns)) OVER (), 0) AS share,
  CASE WHEN bool_and(count IS NOT NULL) THEN sum(count)::BIGINT END AS count,
  sum(sampled_ns)::BIGINT AS sampled_ns
FROM breakdown
WHERE on_cpu
GROUP BY 1, 2, 3
-- In the order of the words that people see.
ORDER BY
  sum(sum(time_ns)) OVER (PARTITION BY operation) DESC, operation, coalesce(nullif(bucket, 'running'), 'not known'), resource
