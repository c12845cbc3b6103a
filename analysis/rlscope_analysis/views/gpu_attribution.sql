-- GPU time by operation in two ways: of the operation that launched it, and of the one open while it
-- ran. The second one cuts each activity where the innermost operation of its thread changes: between
-- two changes all that runs adds to one operation, so that one pass over the changes tells all.
CREATE OR REPLACE VIEW gpu_attribution AS
WITH launched AS (
  SELECT process_id, thread_id, kind = 'kernel' AS is_kernel, start_ns, end_ns, operation
  FROM launch
  WHERE kind <> 'sync' AND end_ns >= start_ns
), launching AS (
  SELECT DISTINCT process_id, thread_id FROM launched WHERE thread_id IS NOT NULL
), change AS (
  SELECT thread_id, start_ns AS ts_ns, 1 AS step, is_kernel::INTEGER AS kernel_step, NULL::INTEGER AS path_id
  FROM launched WHERE thread_id IS NOT NULL
  UNION ALL
  SELECT thread_id, end_ns, -1, -is_kernel::INTEGER, NULL
  FROM launched WHERE thread_id IS NOT NULL
  UNION ALL
  SELECT thread_id, ts_ns, 0, 0, path_id
  FROM _operation_change WHERE thread_id IN (SELECT thread_id FROM launching)
), settled AS (
  -- At most one of the rows of an instant is a change of the operation.
  SELECT thread_id, ts_ns, sum(step) AS step, sum(kernel_step) AS kernel_step, max(path_id) AS path_id
  FROM change
  GROUP BY thread_id, ts_ns
), piece AS (
  SELECT
    thread_id,
    coalesce(arg_max(path_id, ts_ns) OVER upto, 0) AS path_id,
    sum(step) OVER upto AS running,
    sum(kernel_step) OVER upto AS kernels,
    lead(ts_ns, 1, ts_ns) OVER (PARTITION BY thread_id ORDER BY ts_ns) - ts_ns AS time_ns
  FROM settled
  WINDOW upto AS (PARTITION BY thread_id ORDER BY ts_ns ROWS UNBOUNDED PRECEDING)
), reported AS (
  SELECT
    process_id, operation,
    count(*) AS activities, sum(end_ns - start_ns) AS launched_ns, 0 AS ran_ns,
    count(*) FILTER (WHERE is_kernel) AS kernels,
    coalesce(sum(end_ns - start_ns) FILTER (WHERE is_kernel), 0) AS kernel_launched_ns, 0 AS kernel_ran_ns
  FROM launched
  GROUP BY process_id, operation
  UNION ALL
  SELECT
    l.process_id, coalesce(o.name, '(unannotated)'),
    0, 0, sum(p.running * p.time_ns), 0, 0, sum(p.kernels * p.time_ns)
  FROM piece AS p
  JOIN launching AS l ON l.thread_id = p.thread_id
  LEFT JOIN operation_path AS o ON o.path_id = p.path_id
  WHERE p.running > 0
  GROUP BY l.process_id, coalesce(o.name, '(unannotated)')
  UNION ALL
  -- Nobody knows what was open on an unknown thread.
  SELECT
    process_id, NULL,
    0, 0, sum(end_ns - start_ns), 0, 0, coalesce(sum(end_ns - start_ns) FILTER (WHERE is_kernel), 0)
  FROM launched
  WHERE thread_id IS NULL
  GROUP BY process_id
)
SELECT
  process_id, operation,
  sum(activities)::BIGINT AS activities,
  sum(launched_ns)::BIGINT AS launched_ns,
  sum(ran_ns)::BIGINT AS ran_ns,
  sum(kernels)::BIGINT AS kernels,
  sum(kernel_launched_ns)::BIGINT AS kernel_launched_ns,
  sum(kernel_ran_ns)::BIGINT AS kernel_ran_ns
FROM reported
GROUP BY process_id, operation;
COMMENT ON VIEW gpu_attribution IS 'GPU time of each process by the operation that launched it, and by the one that was open while it ran: both columns add up to sum_ns of gpu_time';
COMMENT ON COLUMN gpu_attribution.process_id IS 'The process';
COMMENT ON COLUMN gpu_attribution.operation IS 'Innermost operation of the calling thread; (unannotated): none was open; NULL: the call is not in the trace';
COMMENT ON COLUMN gpu_attribution.activities IS 'Kernels, copies (memcpy, memset) and graphs that it launched';
COMMENT ON COLUMN gpu_attribution.launched_ns IS 'How long these took, whenever they ran; what overlaps counts twice';
COMMENT ON COLUMN gpu_attribution.ran_ns IS 'How long activities that the same thread had launched ran while it was the innermost one there, whoever launched them';
COMMENT ON COLUMN gpu_attribution.kernels IS 'Kernels among the activities';
COMMENT ON COLUMN gpu_attribution.kernel_launched_ns IS 'Part of launched_ns that is of kernels';
COMMENT ON COLUMN gpu_attribution.kernel_ran_ns IS 'Part of ran_ns that is of kernels';
