-- What the rules of the catalogue may ask of a piece of the critical path, and the first whose rule holds.
-- Where a trace has no samples, or no GPU, the joins for them are left out: sorting millions of pieces for
-- nothing takes seconds.
CREATE TABLE limit_piece AS
WITH launch_gap AS (
  -- Between two launches that follow each other within a millisecond a thread is launching.
  SELECT thread_id, ts_ns, next_ns FROM (
    SELECT
      thread_id, ts_ns, lead(ts_ns) OVER (PARTITION BY thread_id ORDER BY ts_ns) AS next_ns
    FROM (
      SELECT DISTINCT l.from_thread_id AS thread_id, l.from_ns AS ts_ns
      FROM gpu_activity_coded AS a
      JOIN _flow_launch AS l
        ON l.process_id = a.process_id AND l.correlation_id = a.correlation_id AND l.to_ns = a.start_ns
        AND l.to_device_id = a.device_id AND l.to_stream_id IS NOT DISTINCT FROM a.stream_id
      WHERE a.kind <> 'sync'
    )
  ) WHERE next_ns - ts_ns <= 1000000
), copying AS (
  -- A call that takes so long moves bytes; the others only have a copy begin.
  SELECT thread_id, start_ns, end_ns FROM cuda_call_coded WHERE kind = 'memcpy' AND end_ns - start_ns >= 100000
), growth AS (
  -- By how much each count of the OS kernel has grown since the reading before.
  SELECT
    ts_ns, scope, process_id, name, value - lag(value) OVER w AS grown, ts_ns - lag(ts_ns) OVER w AS over_ns
  FROM os_counter
  WINDOW w AS (PARTITION BY host, scope, process_id, cgroup, name ORDER BY ts_ns)
), stall AS (
  SELECT ts_ns, grown >= 0.01 * over_ns AS is_short FROM growth
  WHERE scope = 'system' AND name = 'memory_stall_some' AND over_ns > 0
), faulted AS (
  SELECT ts_ns, process_id, grown AS faults FROM growth WHERE name = 'major_faults' AND over_ns > 0
), throttled AS (
  -- Of any cgroup.
  SELECT ts_ns, ts_ns - over_ns AS from_ns FROM growth
  WHERE name = 'quota_throttled' AND over_ns > 0 AND grown >= 0.01 * over_ns
), sampled AS (
  SELECT
    c.*, s.layer AS sampled_layer, s.in_kernel AS sampled_in_kernel,
    coalesce(s.is_own_code, false) AS is_own_code, coalesce(s.is_message, false) AS is_message,
    coalesce(s.team_works, false) AS team_works, NULL AS memory_is_short, NULL AS reads_pages, NULL AS is_throttled,
    false AS is_after_disk
  FROM (FROM critical_path WHERE cause = 'running') AS c
  {if_samples} LEFT JOIN _limit_sample AS s
    ON s.thread_id = c.thread_id AND s.path_id = c.path_id AND {if_samples_on}
  UNION ALL
  SELECT c.*, NULL, NULL, false, false, false, m.is_short, f.faults > 0, NULL, false
  FROM (FROM critical_path WHERE cause = 'blocked') AS c
  ASOF LEFT JOIN stall AS m ON m.ts_ns >= c.start_ns
  ASOF LEFT JOIN faulted AS f ON f.process_id = c.process_id AND f.ts_ns >= c.start_ns
  UNION ALL
  SELECT c.*, NULL, NULL, false, false, false, NULL, NULL, q.from_ns <= c.start_ns, d.end_ns IS NOT NULL
  FROM (FROM critical_path WHERE cause = 'cpu_wait') AS c
  LEFT JOIN (SELECT iteration_id, thread_id, end_ns FROM critical_path_coded WHERE cause = 'disk') AS d
    ON d.iteration_id = c.iteration_id AND d.thread_id = c.thread_id AND d.end_ns = c.start_ns
  {if_quota} LEFT JOIN throttled AS q ON {if_quota_on}
  UNION ALL
  SELECT *, NULL, NULL, false, false, false, NULL, NULL, NULL, false FROM critical_path
  WHERE cause NOT IN ('running', 'blocked', 'cpu_wait')
), fact AS (
  SELECT
    c.*,
    p.phase,
    -- A question to the policy belongs to the step before it.
    coalesce(CASE WHEN p.phase = 'inference' THEN v.evaluates ELSE p.evaluates END, false) AS is_evaluating,
    coalesce(c.path_id, 0) <> 0 AS is_marked,
    -- A piece that lasts beyond it counts where most of it lies.
    coalesce(c.start_ns / 2 + c.end_ns / 2 < s.ready_ns OR c.start_ns >= s.done_ns, false) AS is_starting,
    t.is_lead, t.leads, t.of_python,
    EXISTS (FROM _limit_worker) AS has_workers,
    t.simulates, t.learns,
    EXISTS (FROM _limit_thread WHERE is_lead AND learns) AS lead_learns,
    w.process_id AS waiter_process_id,
    c.by_process_id = c.process_id AS cpu_had_by_own_process,
    b.is_in_python AND t.is_in_python AS both_in_python,
    b.spins AS cpu_had_by_spinner,
    e.process_id IS NOT NULL
      AND (coalesce(t.computes AND NOT t.of_python, false) OR coalesce(p.phase IN ('inference', 'backpropagation'), false))
      AS is_of_large_team,
    b.of_python AND t.of_python AS both_of_python,
    coalesce(k.is_locked, false) AS is_locked,
    coalesce(c.sampled_in_kernel AND d.thread_id IS NOT NULL, false) AS is_for_disk,
    coalesce(k.is_handed_over, false) AS is_handed_over,
    -- A question, or what lies between two.
    a.iteration_id IS NOT NULL AND c.duration_ns <= 20000 AS is_asking,
    g.thread_id IS NOT NULL AND c.start_ns < g.next_ns AND c.cause IN ('running', 'not_measured') AS is_launching,
    t.queue_is_empty, t.syncs_often,
    coalesce(c.cause = 'gpu' AND c.gpu_name ILIKE '%nccl%', false) AS is_collective,
    coalesce(c.gpu_kind IN ('memcpy', 'memset'), false)
      OR (m.thread_id IS NOT NULL AND c.start_ns < m.end_ns AND c.cause IN ('running', 'not_measured')) AS is_copy
  FROM sampled AS c
  LEFT JOIN _limit_path AS p ON p.path_id = c.path_id
  LEFT JOIN _limit_thread AS t ON t.thread_id = c.thread_id
  LEFT JOIN _limit_thread AS b ON b.thread_id = c.by_thread_id
  LEFT JOIN _limit_thread AS w ON w.thread_id = c.waiter_thread_id
  LEFT JOIN _limit_team AS e ON e.process_id = c.process_id
  LEFT JOIN _limit_start AS s ON s.process_id = c.process_id
  LEFT JOIN _limit_lock AS k ON k.iteration_id = c.iteration_id AND k.start_ns = c.start_ns
  {if_evaluation} LEFT JOIN (
    SELECT o.thread_id, o.start_ns AS ts_ns, n.evaluates
    FROM operation_coded AS o JOIN _limit_path AS n ON n.path_id = o.path_id
    WHERE n.phase = 'simulation' AND o.thread_id IN (SELECT thread_id FROM iteration)
  ) AS v ON v.thread_id = c.thread_id AND {if_evaluation_on}
  LEFT JOIN _limit_disk AS d ON d.thread_id = c.thread_id AND d.path_id = coalesce(c.path_id, 0)
  LEFT JOIN _limit_asked AS a ON a.iteration_id = c.iteration_id
  {if_gpu} LEFT JOIN launch_gap AS g ON g.thread_id = c.thread_id AND {if_gpu_on_launch}
  {if_gpu} LEFT JOIN copying AS m ON m.thread_id = c.thread_id AND {if_gpu_on_copy}
)
SELECT
  iteration_id, start_ns, end_ns, duration_ns, process_id, thread_id, device_id, operation, layer, cause,
  by_process_id, by_thread_id, by_program, by_program_pid,
  CASE
    {rules}
  END AS code
FROM fact;
COMMENT ON TABLE limit_piece IS 'Each piece of the critical path, and the limit that it counts for: docs/findings.md';
COMMENT ON COLUMN limit_piece.iteration_id IS 'The iteration';
COMMENT ON COLUMN limit_piece.start_ns IS 'Start of the piece';
COMMENT ON COLUMN limit_piece.end_ns IS 'End of the piece';
COMMENT ON COLUMN limit_piece.duration_ns IS 'Its length';
COMMENT ON COLUMN limit_piece.process_id IS 'The process that the path is in; NULL: it is on a GPU';
COMMENT ON COLUMN limit_piece.thread_id IS 'The thread that it is on; NULL: it is on a GPU';
COMMENT ON COLUMN limit_piece.device_id IS 'The GPU that it is on; NULL: it is on a thread';
COMMENT ON COLUMN limit_piece.operation IS 'The innermost operation open there';
COMMENT ON COLUMN limit_piece.layer IS 'The layer of the innermost known call there; NULL: inside none';
COMMENT ON COLUMN limit_piece.cause IS 'What took the time: critical_path';
COMMENT ON COLUMN limit_piece.by_process_id IS 'The process of by_thread_id';
COMMENT ON COLUMN limit_piece.by_thread_id IS 'The thread that had the CPU; NULL: cause is another';
COMMENT ON COLUMN limit_piece.by_program IS 'The program outside the trace that had the CPU; NULL: cause is another';
COMMENT ON COLUMN limit_piece.by_program_pid IS 'Its process id on the machine (the initial pid namespace)';
COMMENT ON COLUMN limit_piece.code IS 'The limit: docs/findings.md explains each';
