-- The critical path by iteration: the leading process, any other, or a GPU; operation, layer (of a GPU: what it does), cause.
SELECT
  c.iteration_id, CASE WHEN c.thread_id IS NULL THEN 'GPU' WHEN t.process_id = i.process_id THEN 'leading' ELSE 'other' END AS place,
  CASE WHEN c.path_id = 0 THEN '(unannotated)' ELSE regexp_replace(coalesce(p.name, '(unannotated)'), '#[0-9]+$', '') END AS operation,
  coalesce(c.layer::VARCHAR, c.gpu_kind::VARCHAR, '') AS layer,
  CASE WHEN c.wait = 'gil' AND c.thread_id <> i.thread_id THEN 'gil' ELSE c.cause::VARCHAR END AS cause,
  sum(c.time_ns)::BIGINT AS time_ns
FROM (
  SELECT iteration_id, thread_id, path_id, layer, gpu_kind, cause, wait, sum(end_ns - start_ns) AS time_ns
  FROM critical_path_coded GROUP BY ALL
) AS c
JOIN iteration AS i ON i.iteration_id = c.iteration_id
LEFT JOIN thread AS t ON t.thread_id = c.thread_id
LEFT JOIN operation_path AS p ON p.path_id = c.path_id
GROUP BY ALL
