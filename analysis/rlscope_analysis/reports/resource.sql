-- CPU, GPU, CPU+GPU by operation, over the threads that have operations (or all, if none has any).
WITH annotated AS (
  SELECT DISTINCT thread_id FROM operation_coded
), shown AS (
  SELECT operation, resource, time_ns, count
  FROM resource_time
  WHERE thread_id IN (SELECT thread_id FROM annotated) OR NOT EXISTS (SELECT thread_id FROM annotated)
)
SELECT
  operation, resource,
  sum(time_ns)::BIGINT AS time_ns,
  sum(time_ns) / nullif(sum(sum(time_ns)) OVER (), 0) AS share,
  sum(count)::BIGINT AS count
FROM shown
GROUP BY operation, resource
ORDER BY sum(sum(time_ns)) OVER (PARTITION BY operation) DESC, operation, resource
