-- What the program decides: how much of it there is in each iteration. The codes are COUNTS of run.py.
WITH span AS (
  SELECT iteration_id, start_ns, end_ns FROM iteration
), led AS (
  SELECT any_value(process_id) AS process_id FROM iteration
), occurred AS (
  SELECT
    CASE WHEN t.process_id = (SELECT process_id FROM led) THEN 'leading_operations' ELSE 'other_operations' END
      AS code,
    regexp_replace(p.name, '#[0-9]+$', '') AS name, o.start_ns AS ts_ns, 1 AS n
  FROM operation_coded AS o
  JOIN operation_path AS p ON p.path_id = o.path_id AND p.source <> 'lost'
  LEFT JOIN thread AS t ON t.thread_id = o.thread_id
  UNION ALL
  SELECT
    CASE kind WHEN 'kernel' THEN 'gpu_kernels' WHEN 'graph' THEN 'gpu_graphs' ELSE 'gpu_memcpy_memset' END, '',
    start_ns, 1
  FROM gpu_activity_coded WHERE kind <> 'sync'
  UNION ALL
  SELECT 'gpu_bytes_copied', '', start_ns, bytes
  FROM gpu_activity_coded WHERE kind = 'memcpy' AND bytes IS NOT NULL
  UNION ALL
  SELECT 'cuda_launches', '', start_ns, 1 FROM cuda_call_coded WHERE kind = 'launch'
)
SELECT s.iteration_id, o.code, o.name, sum(o.n)::BIGINT AS count
FROM occurred AS o ASOF JOIN span AS s ON s.start_ns <= o.ts_ns
WHERE o.ts_ns < s.end_ns
GROUP BY ALL
UNION ALL
SELECT iteration_id, 'environment_steps', '', environment_steps
FROM iteration WHERE environment_steps IS NOT NULL
