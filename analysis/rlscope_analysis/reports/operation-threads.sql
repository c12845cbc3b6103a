-- Threads of each process: those with operations and their lifetimes, and those without any.
WITH swept AS (
  SELECT
    thread_id,
    coalesce(sum(time_ns) FILTER (WHERE state = 'running'), 0) AS running_ns,
    bool_or(state IS NULL) AS lacks_states
  FROM thread_overlap_coded
  GROUP BY thread_id
), reported AS (
  SELECT
    t.process_id, t.end_ns - t.start_ns AS lifetime_ns, s.running_ns,
    t.thread_id IN (SELECT thread_id FROM operation_coded) AS is_annotated,
    coalesce(s.lacks_states, t.end_ns IS DISTINCT FROM t.start_ns) AS lacks_states
  FROM thread AS t LEFT JOIN swept AS s ON s.thread_id = t.thread_id
)
SELECT
  t.process_id, p.pid, p.name,
  count(*) FILTER (WHERE is_annotated) AS annotated_threads,
  coalesce(sum(lifetime_ns) FILTER (WHERE is_annotated), 0)::BIGINT AS lifetime_ns,
  count(*) FILTER (WHERE NOT is_annotated) AS other_threads,
  coalesce(sum(running_ns) FILTER (WHERE NOT is_annotated AND NOT lacks_states), 0)::BIGINT AS other_running_ns,
  count(*) FILTER (WHERE NOT is_annotated AND lacks_states) AS other_threads_not_measured
FROM reported AS t LEFT JOIN process AS p ON p.process_id = t.process_id
GROUP BY t.process_id, p.pid, p.name
ORDER BY lifetime_ns DESC, t.process_id
