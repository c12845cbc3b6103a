-- Launches by operation: how long the GPU took to begin, and the GPU time on both sides.
WITH launched AS (
  SELECT
    operation,
    count(*) AS launches,
    sum(end_ns - start_ns)::BIGINT AS launched_ns,
    quantile_disc(latency_ns, 0.5) AS latency_p50_ns,
    quantile_disc(latency_ns, 0.99) AS latency_p99_ns,
    quantile_disc(queue_ns, 0.5) AS queue_p50_ns,
    quantile_disc(queue_ns, 0.99) AS queue_p99_ns
  FROM launch
  WHERE kind <> 'sync'
  GROUP BY 1
), ran AS (
  SELECT
    running_operation AS operation,
    sum(end_ns - start_ns)::BIGINT AS ran_ns
  FROM launch
  WHERE kind <> 'sync'
  GROUP BY 1
)
SELECT
  coalesce(l.operation, r.operation) AS operation,
  coalesce(l.launches, 0) AS launches,
  coalesce(l.launched_ns, 0) AS launched_ns,
  coalesce(r.ran_ns, 0) AS ran_ns,
  l.latency_p50_ns, l.latency_p99_ns, l.queue_p50_ns, l.queue_p99_ns
FROM launched AS l FULL JOIN ran AS r ON r.operation IS NOT DISTINCT FROM l.operation
ORDER BY launched_ns DESC, ran_ns DESC, 1 NULLS FIRST
