-- What the launching threads did while the GPUs of their process were idle.
SELECT
  i.process_id, p.pid, p.name AS process,
  i.operation, i.bucket,
  sum(i.time_ns)::BIGINT AS time_ns,
  sum(i.time_ns) / nullif(sum(sum(i.time_ns)) OVER (), 0) AS share,
  sum(i.sampled_ns)::BIGINT AS sampled_ns
FROM gpu_idle AS i LEFT JOIN process AS p ON p.process_id = i.process_id
GROUP BY i.process_id, p.pid, p.name, i.operation, i.bucket
ORDER BY
  sum(sum(i.time_ns)) OVER (PARTITION BY i.process_id) DESC, i.process_id,
  sum(sum(i.time_ns)) OVER (PARTITION BY i.process_id, i.operation) DESC, i.operation NULLS FIRST, i.bucket
