-- Operation x bucket: the conservation law, over all threads.
SELECT
  operation, bucket,
  sum(time_ns)::BIGINT AS time_ns,
  sum(time_ns) / nullif(sum(sum(time_ns)) OVER (), 0) AS share,
  CASE WHEN bool_and(gpu_busy IS NOT NULL) THEN coalesce(sum(time_ns) FILTER (WHERE gpu_busy), 0)::BIGINT END AS gpu_busy_ns,
  sum(count)::BIGINT AS count
FROM breakdown
GROUP BY operation, bucket
ORDER BY sum(sum(time_ns)) OVER (PARTITION BY operation) DESC, operation, bucket
