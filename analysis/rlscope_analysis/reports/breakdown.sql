-- Operation x bucket: the conservation law, over all threads.
SELECT
  operation, bucket,
  sum(time_ns)::BIGINT AS time_ns,
  sum(time_ns) / nullif(sum(sum(time_ns)) OVER (), 0) AS share,
  CASE WHEN bool_and(gpu_busy IS NOT NULL) THEN coalesce(sum(time_ns) FILTER (WHERE gpu_busy), 0)::BIGINT END AS gpu_busy_ns,
  CASE WHEN sum(sampled_ns) = 0 THEN sum(count)::BIGINT END AS count,
  sum(sampled_ns)::BIGINT AS sampled_ns,
  round(sqrt(sum(own_variance) + pow(sum(borrowed_stderr_ns), 2)))::BIGINT AS stderr_ns
FROM _bucket_part
GROUP BY operation, bucket
HAVING sum(time_ns) > 0
ORDER BY sum(sum(time_ns)) OVER (PARTITION BY operation) DESC, operation, bucket
