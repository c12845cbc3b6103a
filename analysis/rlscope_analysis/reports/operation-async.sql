-- Ranges that belong to no thread; they overlap anything, so they are part of no sum.
SELECT
  'async_range' AS scope, process_id, name AS operation, domain,
  count(*) AS instances,
  sum(end_ns - start_ns)::BIGINT AS total_ns,
  sum(end_ns - start_ns) / count(*) AS mean_ns,
  quantile_disc(end_ns - start_ns, 0.5) AS p50_ns,
  quantile_disc(end_ns - start_ns, 0.99) AS p99_ns
FROM async_range_coded
GROUP BY process_id, name, domain
ORDER BY process_id, total_ns DESC, name, domain
