-- How often one layer entered another, by operation.
WITH instance AS (
  SELECT p.name AS operation, count(*) AS instances
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  GROUP BY p.name
)
SELECT
  t.operation, coalesce(t.from_layer, 'no known call') AS from_layer, t.to_layer,
  sum(t.count)::BIGINT AS count,
  any_value(i.instances) AS instances,
  sum(t.count) / any_value(i.instances) AS per_instance
FROM transitions AS t LEFT JOIN instance AS i ON i.operation = t.operation
GROUP BY t.operation, t.from_layer, t.to_layer
ORDER BY sum(t.count) DESC, t.operation, t.from_layer, t.to_layer
