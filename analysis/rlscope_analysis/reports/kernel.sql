-- Kernels, those with the most GPU time first.
SELECT
  sum(instances)::BIGINT AS instances,
  sum(sum_ns)::BIGINT AS sum_ns,
  sum(sum_ns) / nullif(sum(sum(sum_ns)) OVER (), 0) AS share,
  sum(sum_ns) / sum(instances) AS mean_ns,
  max(max_ns) AS max_ns,
  -- Last: names of kernels are long.
  name
FROM gpu_kernel
GROUP BY name
ORDER BY sum(sum_ns) DESC, name
