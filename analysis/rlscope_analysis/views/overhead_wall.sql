-- CPU time is not wall time: a process is longer by the overhead on its leading thread while no GPU works
-- for it, at least. The rest of the overhead lay beside what the process waited for anyway.
CREATE OR REPLACE VIEW overhead_wall AS
WITH placed AS (
  SELECT
    o.process_id, o.event,
    CASE WHEN o.thread_id <> l.thread_id THEN 'threads' WHEN o.gpu_busy THEN 'gpu' ELSE 'exposed' END AS place,
    o.overhead_ns, o.below_ns, o.above_ns
  FROM _overhead_part AS o JOIN _leading_thread AS l ON l.process_id IS NOT DISTINCT FROM o.process_id
), by_event AS (
  SELECT
    process_id, event,
    coalesce(sum(overhead_ns) FILTER (WHERE place = 'exposed'), 0) AS exposed_ns,
    coalesce(sum(below_ns) FILTER (WHERE place = 'exposed'), 0) AS below_ns,
    coalesce(sum(above_ns) FILTER (WHERE place = 'exposed'), 0) AS above_ns,
    coalesce(sum(overhead_ns) FILTER (WHERE place = 'gpu'), 0) AS gpu_ns,
    coalesce(sum(overhead_ns) FILTER (WHERE place = 'threads'), 0) AS threads_ns,
    bool_and(overhead_ns IS NOT NULL) AS is_known
  FROM placed GROUP BY process_id, event
), paid AS (
  SELECT
    process_id, sum(exposed_ns) AS exposed_ns, sum(gpu_ns) AS gpu_ns, sum(threads_ns) AS threads_ns,
    sqrt(sum(pow(below_ns, 2))) AS below_ns, sqrt(sum(pow(above_ns, 2))) AS above_ns,
    bool_and(is_known) AS is_known
  FROM by_event GROUP BY process_id
), known AS (
  SELECT
    l.process_id, l.thread_id,
    q.end_ns - q.start_ns AS wall_ns,
    c.is_so AND coalesce(p.is_known, TRUE)
      AND l.thread_id IN (SELECT thread_id FROM thread_overlap_coded WHERE state IS NOT NULL) AS is_known,
    coalesce(p.exposed_ns, 0) AS exposed_ns, coalesce(p.gpu_ns, 0) AS gpu_ns,
    coalesce(p.threads_ns, 0) AS threads_ns,
    coalesce(p.below_ns, 0) AS below_ns, coalesce(p.above_ns, 0) AS above_ns
  FROM _leading_thread AS l
  CROSS JOIN (SELECT EXISTS (FROM calibration WHERE used AND mean_ns IS NOT NULL) AS is_so) AS c
  LEFT JOIN process AS q ON q.process_id = l.process_id
  LEFT JOIN paid AS p ON p.process_id IS NOT DISTINCT FROM l.process_id
)
SELECT
  process_id, thread_id, wall_ns,
  CASE WHEN is_known THEN round(exposed_ns)::BIGINT + round(gpu_ns)::BIGINT + round(threads_ns)::BIGINT END AS overhead_ns,
  CASE WHEN is_known THEN round(exposed_ns)::BIGINT END AS exposed_ns,
  CASE WHEN is_known THEN round(gpu_ns)::BIGINT END AS under_gpu_ns,
  CASE WHEN is_known THEN round(threads_ns)::BIGINT END AS other_threads_ns,
  CASE WHEN is_known THEN wall_ns - round(exposed_ns)::BIGINT END AS corrected_wall_ns,
  CASE WHEN is_known THEN wall_ns - round(exposed_ns + above_ns)::BIGINT END AS corrected_low_ns,
  CASE WHEN is_known THEN wall_ns - round(exposed_ns - below_ns)::BIGINT END AS corrected_high_ns
FROM known;
COMMENT ON VIEW overhead_wall IS 'What recording cost each process in wall time, at least: overhead = exposed + under_gpu + other_threads, of which only the exposed is taken off';
COMMENT ON COLUMN overhead_wall.process_id IS 'The process';
COMMENT ON COLUMN overhead_wall.thread_id IS 'Its leading thread: the one with the most time in operations; without any, the one that ran longest';
COMMENT ON COLUMN overhead_wall.wall_ns IS 'How long the process was traced';
COMMENT ON COLUMN overhead_wall.overhead_ns IS 'What recording cost it in CPU time, all threads together; NULL: not measured';
COMMENT ON COLUMN overhead_wall.exposed_ns IS 'Part of it on the leading thread while no GPU was known to work for the process: this makes it longer';
COMMENT ON COLUMN overhead_wall.under_gpu_ns IS 'Part of it on the leading thread while a GPU worked: hidden, not taken off';
COMMENT ON COLUMN overhead_wall.other_threads_ns IS 'Part of it on other threads: hidden, not taken off';
COMMENT ON COLUMN overhead_wall.corrected_wall_ns IS 'wall_ns - exposed_ns';
COMMENT ON COLUMN overhead_wall.corrected_low_ns IS 'Start of the interval that holds it with 95 % confidence';
COMMENT ON COLUMN overhead_wall.corrected_high_ns IS 'End of it';
