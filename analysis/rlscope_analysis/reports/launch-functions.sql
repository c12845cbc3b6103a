-- Python functions that had GPUs work, by the samples that fell into their calls.
WITH called AS (
  SELECT
    process_id, correlation_id,
    any_value(operation) AS operation, any_value(call_name) AS call_name, any_value(stack_id) AS stack_id,
    count(*) AS activities
  FROM launch
  WHERE stack_id IS NOT NULL AND kind <> 'sync'
  GROUP BY process_id, correlation_id
), summed AS (
  SELECT
    c.operation, s.frames[-1] AS function, c.call_name,
    sum(k.samples)::BIGINT AS samples,
    count(*) AS calls,
    sum(c.activities)::BIGINT AS activities
  FROM called AS c
  JOIN _sampled_call AS k ON k.process_id = c.process_id AND k.correlation_id = c.correlation_id
  JOIN stack AS s ON s.stack_id = c.stack_id
  GROUP BY ALL
)
SELECT operation, function, call_name, samples, samples / sum(samples) OVER () AS share, calls, activities
FROM summed
ORDER BY samples DESC, operation, function, call_name
