-- What the CPU did while the GPU was idle: each gap cut where anything changes on the thread that ended
-- it. Operation, state, wait and layer change there as the overlap engine sees it; samples split the
-- time outside known calls as they split all such time of that operation without a GPU at work.
CREATE OR REPLACE VIEW _idle_piece AS
WITH every AS MATERIALIZED (
  -- Whole: a condition here would be asked inside idle_gap, whose joins then multiply.
  SELECT thread_id, start_ns, end_ns FROM idle_gap
), gap AS (
  SELECT thread_id, start_ns, end_ns FROM every WHERE thread_id IS NOT NULL
), watched AS (
  SELECT DISTINCT thread_id FROM gap
), edge AS (
  -- Of what begins and ends at one instant the beginning holds.
  SELECT thread_id, start_ns AS ts_ns, state, TRUE AS is_start FROM thread_state_coded WHERE thread_id IN (SELECT thread_id FROM watched)
  UNION ALL
  SELECT thread_id, end_ns, 4, FALSE FROM thread_state_coded WHERE thread_id IN (SELECT thread_id FROM watched)
), wait_edge AS (
  SELECT thread_id, start_ns AS ts_ns, kind AS wait, TRUE AS is_start FROM wait_coded WHERE thread_id IN (SELECT thread_id FROM watched)
  UNION ALL
  SELECT thread_id, end_ns, 0, FALSE FROM wait_coded WHERE thread_id IN (SELECT thread_id FROM watched)
), call_edge AS (
  -- As in _operation_change.
  SELECT thread_id, start_ns AS ts_ns, layer, depth::INTEGER + 1 AS rank FROM native_call_coded WHERE end_ns > start_ns AND thread_id IN (SELECT thread_id FROM watched)
  UNION ALL
  SELECT thread_id, end_ns, parent_layer, -depth::INTEGER - 1 FROM native_call_coded WHERE end_ns > start_ns AND thread_id IN (SELECT thread_id FROM watched)
), change AS (
  SELECT thread_id, start_ns AS ts_ns, 1 AS gap_step, 0 AS life_step, 0 AS cuda_step, 0 AS sync_step, NULL::INTEGER AS path_id, NULL::INTEGER AS state, NULL::INTEGER AS wait, NULL::INTEGER AS layer FROM gap
  UNION ALL
  SELECT thread_id, end_ns, -1, 0, 0, 0, NULL, NULL, NULL, NULL FROM gap
  UNION ALL
  SELECT thread_id, start_ns, 0, 1, 0, 0, NULL, NULL, NULL, NULL FROM thread WHERE thread_id IN (SELECT thread_id FROM watched)
  UNION ALL
  SELECT thread_id, end_ns, 0, -1, 0, 0, NULL, NULL, NULL, NULL FROM thread WHERE thread_id IN (SELECT thread_id FROM watched)
  UNION ALL
  SELECT thread_id, start_ns, 0, 0, 1, (kind = 4)::INTEGER, NULL, NULL, NULL, NULL FROM cuda_call_coded WHERE end_ns > start_ns AND thread_id IN (SELECT thread_id FROM watched)
  UNION ALL
  SELECT thread_id, end_ns, 0, 0, -1, -(kind = 4)::INTEGER, NULL, NULL, NULL, NULL FROM cuda_call_coded WHERE end_ns > start_ns AND thread_id IN (SELECT thread_id FROM watched)
  UNION ALL
  SELECT thread_id, ts_ns, 0, 0, 0, 0, path_id, NULL, NULL, NULL FROM _operation_change WHERE thread_id IN (SELECT thread_id FROM watched)
  UNION ALL
  SELECT thread_id, ts_ns, 0, 0, 0, 0, NULL, arg_max(state, is_start), NULL, NULL FROM edge GROUP BY thread_id, ts_ns
  UNION ALL
  SELECT thread_id, ts_ns, 0, 0, 0, 0, NULL, NULL, arg_max(wait, is_start), NULL FROM wait_edge GROUP BY thread_id, ts_ns
  UNION ALL
  SELECT
    thread_id, ts_ns, 0, 0, 0, 0, NULL, NULL, NULL,
    coalesce(arg_max(layer, rank) FILTER (WHERE rank > 0), arg_max(layer, rank) FILTER (WHERE rank < 0))
  FROM call_edge GROUP BY thread_id, ts_ns
), settled AS (
  -- At most one of the rows of an instant sets each of the last four.
  SELECT
    thread_id, ts_ns,
    sum(gap_step) AS gap_step, sum(life_step) AS life_step, sum(cuda_step) AS cuda_step, sum(sync_step) AS sync_step,
    max(path_id) AS path_id, max(state) AS state, max(wait) AS wait, max(layer) AS layer
  FROM change
  WHERE ts_ns IS NOT NULL
  GROUP BY thread_id, ts_ns
), piece AS (
  SELECT
    thread_id, ts_ns,
    lead(ts_ns, 1, ts_ns) OVER (PARTITION BY thread_id ORDER BY ts_ns) - ts_ns AS time_ns,
    sum(gap_step) OVER upto AS gaps,
    sum(life_step) OVER upto > 0 AS lives,
    sum(cuda_step) OVER upto > 0 AS is_cuda,
    sum(sync_step) OVER upto > 0 AS is_sync,
    coalesce(arg_max(path_id, ts_ns) OVER upto, 0) AS path_id,
    coalesce(arg_max(state, ts_ns) OVER upto, 4) AS state,
    coalesce(arg_max(wait, ts_ns) OVER upto, 0) AS wait,
    coalesce(arg_max(layer, ts_ns) OVER upto, 0) AS layer
  FROM settled
  WINDOW upto AS (PARTITION BY thread_id ORDER BY ts_ns ROWS UNBOUNDED PRECEDING)
)
SELECT
  t.process_id, p.thread_id, p.lives,
  p.path_id,
  CASE WHEN p.state = 4 AND NOT coalesce(m.measured, FALSE) THEN 255 ELSE p.state END AS state,
  CASE WHEN p.is_cuda THEN 4 ELSE p.layer END AS layer,
  CASE WHEN p.state IN (0, 1) THEN 0 WHEN p.wait <> 1 AND p.is_sync THEN 2 ELSE p.wait END AS wait,
  sum(p.time_ns)::BIGINT AS time_ns
FROM piece AS p
LEFT JOIN thread AS t ON t.thread_id = p.thread_id
LEFT JOIN _measured AS m ON m.process_id = t.process_id AND m.kind = 'thread_state'
WHERE p.gaps > 0
GROUP BY ALL;
COMMENT ON VIEW _idle_piece IS 'Private: may change without notice. Time of the gaps of idle_gap by what held on the thread that ended them';
COMMENT ON COLUMN _idle_piece.process_id IS 'The process';
COMMENT ON COLUMN _idle_piece.thread_id IS 'The thread';
COMMENT ON COLUMN _idle_piece.lives IS 'Whether it lived then';
COMMENT ON COLUMN _idle_piece.path_id IS 'The stack of open operations: operation_path; 0: none';
COMMENT ON COLUMN _idle_piece.state IS 'As in thread_overlap_coded';
COMMENT ON COLUMN _idle_piece.layer IS 'As in thread_overlap_coded';
COMMENT ON COLUMN _idle_piece.wait IS 'As in thread_overlap_coded';
COMMENT ON COLUMN _idle_piece.time_ns IS 'How long';

CREATE OR REPLACE VIEW gpu_idle AS
WITH estimate AS (
  SELECT
    thread_id, path_id, call_layer, layer, method, time_ns,
    sum(time_ns) OVER (PARTITION BY thread_id, path_id, call_layer ORDER BY layer ROWS UNBOUNDED PRECEDING) AS upto_ns,
    sum(time_ns) OVER (PARTITION BY thread_id, path_id, call_layer) AS all_ns
  FROM layer_estimate_coded
  WHERE gpu = 0
), split AS (
  -- Each part ends where its share of the whole ends, rounded: the parts add up.
  SELECT
    i.process_id, i.thread_id, i.lives, i.path_id, i.state, i.wait,
    coalesce(e.layer, i.layer) AS layer,
    CASE WHEN e.layer IS NULL THEN i.time_ns ELSE
      i.time_ns::HUGEINT * e.upto_ns // e.all_ns - i.time_ns::HUGEINT * (e.upto_ns - e.time_ns) // e.all_ns
    END AS time_ns,
    e.method IS NOT NULL AND e.method <> 0 AS is_sampled
  FROM _idle_piece AS i
  LEFT JOIN estimate AS e
    ON i.lives AND i.state = 0 AND e.thread_id = i.thread_id AND e.path_id = i.path_id
      AND e.call_layer = i.layer AND e.all_ns > 0
), named AS (
  SELECT
    process_id, thread_id, path_id, lives, state, wait, time_ns, is_sampled,
    CASE layer WHEN 1 THEN 'python' WHEN 2 THEN 'simulator' WHEN 3 THEN 'backend' WHEN 4 THEN 'cuda_api' WHEN 5 THEN 'spin' WHEN 6 THEN 'other' END AS layer_bucket
  FROM split
), told AS (
  SELECT
    n.process_id, n.thread_id,
    CASE WHEN n.path_id = 0 THEN '(unannotated)' ELSE p.name END AS operation,
    -- As in breakdown.
    CASE
      WHEN NOT n.lives THEN NULL
      WHEN n.state = 0 THEN coalesce(n.layer_bucket, 'running')
      WHEN n.state = 1 THEN 'runnable'
      WHEN n.state = 4 THEN 'lost'
      WHEN n.wait = 1 THEN 'gil_wait'
      WHEN n.wait = 2 THEN 'gpu_wait'
      WHEN n.wait IN (3, 5, 6, 8) THEN 'io_wait'
      WHEN n.wait <> 0 THEN 'sleeping'
      WHEN n.state = 3 THEN 'io_wait'
      WHEN n.state = 2 THEN 'sleeping'
      ELSE coalesce(n.layer_bucket, 'unknown')
    END AS bucket,
    n.time_ns,
    CASE WHEN n.is_sampled THEN n.time_ns ELSE 0 END AS sampled_ns
  FROM named AS n LEFT JOIN operation_path AS p ON p.path_id = n.path_id
  UNION ALL
  SELECT process_id, NULL, NULL, NULL, duration_ns, 0 FROM idle_gap WHERE thread_id IS NULL
)
SELECT
  process_id, thread_id, operation, bucket,
  sum(time_ns)::BIGINT AS time_ns,
  sum(sampled_ns)::BIGINT AS sampled_ns
FROM told
GROUP BY process_id, thread_id, operation, bucket
HAVING sum(time_ns) > 0;
COMMENT ON VIEW gpu_idle IS 'What the launching thread did while the GPUs of its process were idle: of each gap in idle_gap the thread whose call ended it. The rows of a process add up to its gaps, which are idle_ns of gpu_time unless what began or ended the GPU work took no time';
COMMENT ON COLUMN gpu_idle.process_id IS 'The process';
COMMENT ON COLUMN gpu_idle.thread_id IS 'The thread whose call ended the gap; NULL: that call is not in the trace';
COMMENT ON COLUMN gpu_idle.operation IS 'Its innermost open operation at that time; (unannotated): none was open; NULL: the thread is not known';
COMMENT ON COLUMN gpu_idle.bucket IS 'What it did, as in breakdown; NULL: the thread is not known, or did not live yet';
COMMENT ON COLUMN gpu_idle.time_ns IS 'How long that was so while the GPUs were idle';
COMMENT ON COLUMN gpu_idle.sampled_ns IS 'Part of time_ns that samples split: by the shares that they found in all time of this operation without a GPU at work';
