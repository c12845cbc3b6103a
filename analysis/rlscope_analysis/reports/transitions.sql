-- How often one layer entered another, by process and operation.
WITH instance AS (
  SELECT t.process_id, p.name AS operation, count(*) AS instances
  FROM operation_coded AS o
  JOIN operation_path AS p ON p.path_id = o.path_id
  JOIN thread AS t ON t.thread_id = o.thread_id
  GROUP BY t.process_id, p.name
), summed AS (
  SELECT
    process_id, operation,
    CASE WHEN reason IS NULL THEN coalesce(from_layer, 'no known call') END AS from_layer,
    to_layer,
    CASE WHEN bool_and(reason IS NULL) THEN sum(count)::BIGINT END AS count,
    any_value(reason) AS reason
  FROM transitions
  GROUP BY ALL
)
SELECT
  t.process_id, q.pid, t.operation, t.from_layer, t.to_layer, t.count, i.instances,
  t.count / i.instances AS per_instance,
  t.reason AS not_measured
FROM summed AS t
LEFT JOIN process AS q ON q.process_id = t.process_id
LEFT JOIN instance AS i ON i.process_id IS NOT DISTINCT FROM t.process_id AND i.operation = t.operation
ORDER BY t.count DESC NULLS LAST, t.process_id, t.operation, t.from_layer, t.to_layer
