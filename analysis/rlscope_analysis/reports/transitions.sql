-- How often one layer entered another, by process and operation.
WITH instance AS (
  SELECT t.process_id, p.name AS operation, count(*) AS instances
  FROM operation_coded AS o
  JOIN operation_path AS p ON p.path_id = o.path_id
  JOIN thread AS t ON t.thread_id = o.thread_id
  WHERE p.source IS DISTINCT FROM 'lost'
  GROUP BY t.process_id, p.name
), counted AS (
  -- Instances of which every call was recorded: those that began no earlier than the probes came.
  SELECT t.process_id, p.name AS operation, g.layer, count(*) AS instances
  FROM operation_coded AS o
  JOIN operation_path AS p ON p.path_id = o.path_id
  JOIN thread AS t ON t.thread_id = o.thread_id
  JOIN _layer_gap AS g ON g.process_id IS NOT DISTINCT FROM t.process_id
  WHERE p.source IS DISTINCT FROM 'lost' AND g.reason IS NULL AND (g.since_ns IS NULL OR o.start_ns >= g.since_ns)
  GROUP BY ALL
), summed AS (
  SELECT
    process_id, operation,
    CASE WHEN counted > 0 THEN from_layer END AS from_layer,
    coalesce(counted > 0, false) AS is_counted,
    to_layer,
    CASE WHEN bool_and(reason IS NULL) THEN sum(count)::BIGINT END AS count,
    CASE WHEN bool_and(counted IS NOT NULL) THEN sum(counted)::BIGINT END AS counted,
    any_value({'reason': reason, 'facts': facts}) FILTER (WHERE reason IS NOT NULL) AS not_measured
  FROM transitions
  GROUP BY ALL
)
SELECT
  t.process_id, q.pid, t.operation, t.from_layer, t.to_layer, t.count, i.instances,
  t.counted, c.instances AS counted_instances, t.counted / c.instances AS per_instance,
  t.not_measured
FROM summed AS t
LEFT JOIN process AS q ON q.process_id = t.process_id
LEFT JOIN instance AS i ON i.process_id IS NOT DISTINCT FROM t.process_id AND i.operation = t.operation
LEFT JOIN counted AS c
  ON c.process_id IS NOT DISTINCT FROM t.process_id AND c.operation = t.operation AND c.layer = t.to_layer
-- Ties in the order of the words that people see.
ORDER BY
  t.count DESC NULLS LAST, t.process_id, t.operation,
  CASE WHEN t.is_counted THEN coalesce(t.from_layer, 'no known call') END, t.to_layer
