-- What the CPU did while the GPU was idle: each gap cut where anything changes on the thread that ended
-- it. Operation, state, wait and layer change there as the overlap engine sees it; samples split the
-- time outside known calls as they split all such time of that operation without a GPU at work.
CREATE OR REPLACE VIEW _idle_piece AS
WITH gap AS MATERIALIZED (
  SELECT process_id, thread_id, start_ns, end_ns FROM _idle_gap
), watched AS (
  SELECT DISTINCT thread_id FROM gap WHERE thread_id IS NOT NULL
), operation_step AS (
  SELECT thread_id, ts_ns, path_id - lag(path_id, 1, 0) OVER (PARTITION BY thread_id ORDER BY ts_ns) AS step
  FROM _operation_change
), held AS NOT MATERIALIZED (
  -- All that holds at an instant is one number, the sum of these. From the lowest bit: 1 in a gap,
  -- 1 alive, 10 open CUDA calls, 10 of them that wait for the GPU, 3 state, 4 wait, then the path, and
  -- from bit 60 the layer: of words the place, counted from 1. Waits and states of a thread do not overlap, and native calls nest.
  SELECT thread_id, start_ns, end_ns, 1::BIGINT AS step FROM gap
  UNION ALL
  SELECT thread_id, start_ns, coalesce(end_ns, 9223372036854775807), 1::BIGINT << 1 FROM thread WHERE start_ns IS NOT NULL
  UNION ALL
  SELECT thread_id, start_ns, end_ns, CASE WHEN kind = 'sync' THEN (1::BIGINT << 2) + (1::BIGINT << 12) ELSE 1::BIGINT << 2 END FROM cuda_call_coded
  UNION ALL
  SELECT thread_id, start_ns, end_ns, (enum_code(state)::BIGINT + 1) << 22 FROM thread_state_coded
  UNION ALL
  SELECT thread_id, start_ns, end_ns, (enum_code(kind)::BIGINT + 1) << 25 FROM wait_coded
  UNION ALL
  SELECT thread_id, start_ns, end_ns, (coalesce(enum_code(layer)::BIGINT, -1) - coalesce(enum_code(parent_layer)::BIGINT, -1)) * (1::BIGINT << 60) FROM native_call_coded WHERE layer IS DISTINCT FROM parent_layer
), change AS NOT MATERIALIZED (
  SELECT thread_id, start_ns AS ts_ns, step FROM held WHERE end_ns > start_ns
  UNION ALL
  SELECT thread_id, end_ns, -step FROM held WHERE end_ns > start_ns
  UNION ALL
  SELECT thread_id, ts_ns, step * (1::BIGINT << 29) FROM operation_step WHERE step <> 0
), piece AS (
  SELECT
    thread_id,
    sum(step) OVER (PARTITION BY thread_id ORDER BY ts_ns ROWS UNBOUNDED PRECEDING) AS held,
    lead(ts_ns, 1, ts_ns) OVER (PARTITION BY thread_id ORDER BY ts_ns) - ts_ns AS time_ns
  FROM change
  WHERE thread_id IN (SELECT thread_id FROM watched)
), summed AS (
  SELECT thread_id, held, sum(time_ns)::BIGINT AS time_ns
  FROM piece
  WHERE time_ns > 0 AND (held & 1) = 1
  GROUP BY thread_id, held
), reported AS (
  SELECT
    thread_id,
    ((held >> 1) & 1) = 1 AS lives,
    ((held >> 29) & 2147483647)::INTEGER AS path_id,
    (enum_range(NULL::THREAD_STATE)::THREAD_STATE[])[((held >> 22) & 7)::INTEGER] AS state,
    CASE WHEN ((held >> 2) & 1023) > 0 THEN 'cuda_api' ELSE (enum_range(NULL::LAYER)::LAYER[])[(held >> 60)::INTEGER] END AS layer,
    (enum_range(NULL::WAIT_KIND)::WAIT_KIND[])[((held >> 25) & 15)::INTEGER] AS wait,
    ((held >> 12) & 1023) > 0 AS is_sync,
    time_ns
  FROM summed
)
SELECT
  t.process_id, p.thread_id, p.lives,
  p.path_id,
  CASE WHEN p.state IS NULL AND m.measured THEN 'lost' ELSE p.state END AS state,
  p.layer,
  CASE WHEN p.state IN ('running', 'runnable') THEN NULL WHEN p.wait IS DISTINCT FROM 'gil' AND p.is_sync THEN 'gpu' ELSE p.wait END AS wait,
  sum(p.time_ns)::BIGINT AS time_ns
FROM reported AS p
LEFT JOIN thread AS t ON t.thread_id = p.thread_id
LEFT JOIN _measured AS m ON m.process_id = t.process_id AND m.kind = 'thread_state'
GROUP BY ALL
UNION ALL
SELECT process_id, NULL, NULL, NULL, NULL, NULL, NULL, sum(end_ns - start_ns)::BIGINT
FROM gap
WHERE thread_id IS NULL
GROUP BY process_id;
COMMENT ON VIEW _idle_piece IS 'Private: may change without notice. Time of the gaps of idle_gap by what held on the thread that ended them';
COMMENT ON COLUMN _idle_piece.process_id IS 'The process';
COMMENT ON COLUMN _idle_piece.thread_id IS 'The thread; NULL: it is not known, nor are the others';
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
    sum(time_ns) OVER (PARTITION BY thread_id, path_id, call_layer ORDER BY layer NULLS FIRST ROWS UNBOUNDED PRECEDING) AS upto_ns,
    sum(time_ns) OVER (PARTITION BY thread_id, path_id, call_layer) AS all_ns
  FROM layer_estimate_coded
  WHERE NOT gpu
), split AS (
  -- Each part ends where its share of the whole ends, rounded: the parts add up.
  SELECT
    i.process_id, i.thread_id, i.lives, i.path_id, i.state, i.wait,
    CASE WHEN e.thread_id IS NULL THEN i.layer ELSE e.layer END AS layer,
    CASE WHEN e.thread_id IS NULL THEN i.time_ns ELSE
      i.time_ns::HUGEINT * e.upto_ns // e.all_ns - i.time_ns::HUGEINT * (e.upto_ns - e.time_ns) // e.all_ns
    END AS time_ns,
    e.method IS NOT NULL AS is_sampled
  FROM _idle_piece AS i
  LEFT JOIN estimate AS e
    ON i.lives AND i.state = 'running' AND e.thread_id = i.thread_id AND e.path_id = i.path_id
      AND e.call_layer IS NOT DISTINCT FROM i.layer AND e.all_ns > 0
), reported AS (
  SELECT
    n.process_id, n.thread_id,
    CASE WHEN n.path_id = 0 THEN '(unannotated)' ELSE p.name END AS operation,
    CASE WHEN n.lives THEN /* bucket_rule */ END AS bucket,
    n.time_ns,
    CASE WHEN n.is_sampled THEN n.time_ns ELSE 0 END AS sampled_ns
  FROM split AS n LEFT JOIN operation_path AS p ON p.path_id = n.path_id
)
SELECT
  process_id, thread_id, operation, bucket,
  sum(time_ns)::BIGINT AS time_ns,
  sum(sampled_ns)::BIGINT AS sampled_ns
FROM reported
GROUP BY process_id, thread_id, operation, bucket
HAVING sum(time_ns) > 0;
COMMENT ON VIEW gpu_idle IS 'What the launching thread did while the GPUs of its process were idle: of each gap in idle_gap the thread whose call ended it. The rows of a process add up to its idle_ns in gpu_time';
COMMENT ON COLUMN gpu_idle.process_id IS 'The process';
COMMENT ON COLUMN gpu_idle.thread_id IS 'The thread whose call ended the gap; NULL: that call is not in the trace';
COMMENT ON COLUMN gpu_idle.operation IS 'Its innermost open operation at that time; (unannotated): none was open; NULL: the thread is not known';
COMMENT ON COLUMN gpu_idle.bucket IS 'What it did, as in breakdown; NULL: the thread is not known, or did not live yet';
COMMENT ON COLUMN gpu_idle.time_ns IS 'How long that was so while the GPUs were idle';
COMMENT ON COLUMN gpu_idle.sampled_ns IS 'Part of time_ns that samples split: by the shares that they found in all time of this operation without a GPU at work';
