-- Process x operation x bucket: the conservation law, over all threads.
SELECT
  b.process_id, p.pid, p.name AS process, b.operation, b.bucket,
  sum(b.time_ns)::BIGINT AS time_ns,
  sum(b.time_ns) / nullif(sum(sum(b.time_ns)) OVER (), 0) AS share,
  CASE WHEN bool_and(b.gpu_busy IS NOT NULL) THEN coalesce(sum(b.time_ns) FILTER (WHERE b.gpu_busy), 0)::BIGINT END AS gpu_busy_ns,
  CASE WHEN sum(b.sampled_ns) = 0 THEN sum(b.count)::BIGINT END AS count,
  sum(b.sampled_ns)::BIGINT AS sampled_ns,
  round(sqrt(sum(b.own_variance) + pow(sum(b.borrowed_stderr_ns), 2)))::BIGINT AS stderr_ns
FROM _bucket_part AS b LEFT JOIN process AS p ON p.process_id = b.process_id
GROUP BY b.process_id, p.pid, p.name, b.operation, b.bucket
HAVING sum(b.time_ns) > 0
ORDER BY
  sum(sum(b.time_ns)) OVER (PARTITION BY b.process_id) DESC, b.process_id,
  sum(sum(b.time_ns)) OVER (PARTITION BY b.process_id, b.operation) DESC, b.operation, b.bucket
