-- What the CPUs ran, by operation: the layer of the innermost known call.
SELECT
  operation, coalesce(layer, 'not known') AS layer, coalesce(resource, 'not measured') AS resource,
  sum(time_ns)::BIGINT AS time_ns,
  sum(time_ns) / nullif(sum(sum(time_ns)) OVER (), 0) AS share,
  sum(count)::BIGINT AS count
FROM resource_time
WHERE resource IN ('CPU', 'CPU+GPU') OR layer IS NOT NULL
GROUP BY 1, 2, 3
ORDER BY sum(sum(time_ns)) OVER (PARTITION BY operation) DESC, operation, layer, resource
