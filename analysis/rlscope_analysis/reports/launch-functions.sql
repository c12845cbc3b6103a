-- Python functions that had GPUs work, by the samples that fell into their calls. In a window: a call
-- counts, with all of its samples, where the first of its activities begins, and each activity where
-- it begins itself, so that windows that follow each other add up.
WITH called AS (
  SELECT
    l.process_id, l.correlation_id,
    any_value(l.operation) AS operation, any_value(l.call_name) AS call_name, any_value(l.stack_id) AS stack_id,
    bool_or(l.start_ns = f.start_ns) AS begins,
    -- What began before the window has no latency in it.
    count(l.latency_ns) AS activities
  FROM launch AS l
  JOIN _first_activity AS f ON f.process_id = l.process_id AND f.correlation_id = l.correlation_id
  WHERE l.stack_id IS NOT NULL AND l.kind <> 'sync'
  GROUP BY l.process_id, l.correlation_id
), summed AS (
  SELECT
    c.operation, s.leaf AS function, c.call_name,
    coalesce(sum(k.samples) FILTER (WHERE c.begins), 0)::BIGINT AS samples,
    count(*) FILTER (WHERE c.begins) AS calls,
    sum(c.activities)::BIGINT AS activities
  FROM called AS c
  JOIN _sampled_call AS k ON k.process_id = c.process_id AND k.correlation_id = c.correlation_id
  JOIN stack AS s ON s.stack_id = c.stack_id
  WHERE c.activities > 0
  GROUP BY ALL
)
SELECT operation, function, call_name, samples, samples / nullif(sum(samples) OVER (), 0) AS share, calls, activities
FROM summed
/* of_operation */
ORDER BY samples DESC, operation, function, call_name
