-- Functions, kernels, copies, launches and waits by name and iteration. {period_ns}: what a sample stands for.
WITH span AS (
  SELECT iteration_id, start_ns, end_ns FROM iteration
), led AS (
  SELECT any_value(process_id) AS process_id FROM iteration
), found AS (
  SELECT
    'function' AS kind, coalesce(k.frames[-1], '(no Python function)') AS name,
    c.ts_ns, {period_ns}::BIGINT AS time_ns
  FROM cpu_sample_coded AS c LEFT JOIN stack_coded AS k ON k.stack_id = c.stack_id
  UNION ALL
  SELECT
    CASE a.kind WHEN 'memcpy' THEN 'copy' WHEN 'memset' THEN 'copy' ELSE a.kind::VARCHAR END,
    coalesce(s.value, a.kind::VARCHAR), a.start_ns, a.end_ns - a.start_ns
  FROM gpu_activity_coded AS a LEFT JOIN string AS s ON s.string_id = a.name_id WHERE a.kind <> 'sync'
  UNION ALL
  SELECT 'launch', coalesce(s.value, '(no name)'), a.start_ns, a.end_ns - a.start_ns
  FROM cuda_call_coded AS a LEFT JOIN string AS s ON s.string_id = a.name_id WHERE a.kind = 'launch'
  UNION ALL
  SELECT 'wait', w.kind::VARCHAR, w.start_ns, w.end_ns - w.start_ns
  FROM wait_coded AS w JOIN thread AS t ON t.thread_id = w.thread_id
  WHERE t.process_id = (SELECT process_id FROM led) AND w.kind IS NOT NULL
)
SELECT s.iteration_id, f.kind, f.name, sum(f.time_ns)::BIGINT AS time_ns, count(*) AS count
FROM found AS f ASOF JOIN span AS s ON s.start_ns <= f.ts_ns
WHERE f.ts_ns < s.end_ns
GROUP BY ALL
