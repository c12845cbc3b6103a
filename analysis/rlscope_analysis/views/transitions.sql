-- How often Python entered the simulator, the backend and the CUDA API: exact calls only.
-- A count that may be too small is no count: of a layer whose calls were not, or not all, recorded.
CREATE OR REPLACE VIEW _layer_gap AS
WITH kind AS (
  SELECT unnest([
    {'layer': 'simulator', 'kind': 'native_call:simulator', 'is_general': FALSE},
    {'layer': 'simulator', 'kind': 'native_call', 'is_general': TRUE},
    {'layer': 'backend', 'kind': 'native_call:backend', 'is_general': FALSE},
    {'layer': 'backend', 'kind': 'native_call', 'is_general': TRUE},
    {'layer': 'cuda_api', 'kind': 'native_call:cuda_api', 'is_general': FALSE},
    {'layer': 'cuda_api', 'kind': 'cuda_call', 'is_general': FALSE}
  ], recursive := TRUE)
), known AS (
  SELECT process_id, min(start_ns) AS start_ns
  FROM (SELECT process_id, start_ns FROM process UNION ALL SELECT process_id, start_ns FROM thread)
  GROUP BY process_id
), said AS (
  SELECT
    p.process_id, k.layer, k.is_general,
    own.kind IS NOT NULL AS is_own,
    coalesce(own.measured, every.measured, FALSE) AS measured,
    coalesce(own.part, every.part) AS part,
    CASE WHEN own.kind IS NOT NULL THEN own.facts ELSE every.facts END AS facts
  FROM known AS p CROSS JOIN kind AS k
  LEFT JOIN _covered AS own ON own.process_id = p.process_id AND own.kind = k.kind
  LEFT JOIN _covered AS every ON every.process_id IS NULL AND every.kind = k.kind
  WHERE own.kind IS NOT NULL OR every.kind IS NOT NULL
), ranked AS (
  -- What tells of one layer goes before what tells of all; but what a process lacks, it lacks for
  -- every layer. Of two sources one that measured will do.
  SELECT
    process_id, layer, measured, part, facts,
    CASE
      WHEN is_own AND NOT is_general THEN 0
      WHEN is_own AND (NOT measured OR part) THEN 1
      WHEN NOT is_general THEN 2
      ELSE 3
    END AS place
  FROM said
), captured AS (
  SELECT
    process_id, layer,
    arg_min(measured, (place, NOT measured)) AS measured,
    arg_min(part, (place, NOT measured)) AS part,
    arg_min_null(facts, (place, NOT measured)) AS facts
  FROM ranked
  GROUP BY process_id, layer
), incomplete AS (
  SELECT layer, min(symbol) AS symbol, count(*) AS sites
  FROM site
  WHERE dropped_ns < (SELECT max(end_ns) FROM thread) OR state = 'not_probed'
  GROUP BY layer
), probed AS (
  SELECT layer, max(probed_ns) AS since_ns FROM site GROUP BY layer
), unseen AS (
  -- Samples found the layer, but not one call: its functions were never found.
  SELECT DISTINCT t.process_id, c.layer::VARCHAR AS layer
  FROM sample_count_coded AS c JOIN thread AS t ON t.thread_id = c.thread_id
  WHERE c.call_layer IS NULL AND c.layer IN ('simulator', 'backend')
  EXCEPT
  SELECT t.process_id, c.to_layer::VARCHAR
  FROM transition_coded AS c JOIN thread AS t ON t.thread_id = c.thread_id
  WHERE c.to_layer IN ('simulator', 'backend')
), lost AS (
  -- The codes of which the vocabulary says that calls were lost: schema/facts/losses.
  SELECT least(coalesce(sum(count), 0), 9223372036854775807)::BIGINT AS calls
  FROM trace_stat
  WHERE code IN ('events_unreadable', 'call_too_deep', 'call_in_signal_handler', 'call_without_memory', 'call_probe_skipped')
    OR code IN ('ring_full', 'other_rings_full', 'spool_full') AND record = 'call'
), cut AS (
  -- And those of which it says that calls may be among what is missing.
  SELECT min(code) AS code
  FROM trace_stat
  WHERE code IN (
    'recorder_killed', 'counters_gone', 'spool_cut', 'spool_damaged', 'spool_unknown', 'probe_notes_damaged',
    'functions_unsearched', 'more_functions_unsearched', 'call_abandoned'
  )
), reported AS (
  SELECT
    p.process_id, p.start_ns, l.layer,
    CASE
      WHEN c.layer IS NULL THEN 'not_measured'
      WHEN NOT c.measured AND c.facts IS NULL THEN 'not_measured'
      WHEN NOT c.measured THEN 'not_captured'
      WHEN c.part THEN 'captured_in_part'
      WHEN i.layer IS NOT NULL THEN 'functions_not_probed'
      WHEN o.calls > 0 THEN 'calls_lost'
      WHEN x.code IS NOT NULL THEN 'calls_perhaps_lost'
      WHEN u.layer IS NOT NULL THEN 'functions_not_found'
    END AS reason,
    c.facts, i.symbol, i.sites, o.calls, x.code
  FROM known AS p
  CROSS JOIN (SELECT DISTINCT layer FROM kind) AS l
  CROSS JOIN lost AS o
  CROSS JOIN cut AS x
  LEFT JOIN captured AS c ON c.process_id IS NOT DISTINCT FROM p.process_id AND c.layer = l.layer
  LEFT JOIN incomplete AS i ON i.layer = l.layer
  LEFT JOIN unseen AS u ON u.process_id IS NOT DISTINCT FROM p.process_id AND u.layer = l.layer
)
SELECT
  t.process_id, t.layer, t.reason,
  CASE
    WHEN t.reason IS NULL THEN NULL
    WHEN t.reason IN ('not_captured', 'captured_in_part') THEN t.facts
    ELSE [{
      'code': t.reason,
      'subject': CASE t.reason WHEN 'functions_not_probed' THEN t.symbol WHEN 'calls_perhaps_lost' THEN t.code END,
      'detail': NULL::VARCHAR,
      'count': CASE t.reason WHEN 'functions_not_probed' THEN t.sites WHEN 'calls_lost' THEN t.calls END,
      'ts_ns': NULL::BIGINT, 'duration_ns': NULL::BIGINT
    }]
  END AS facts,
  CASE WHEN s.since_ns > t.start_ns THEN s.since_ns END AS since_ns
FROM reported AS t
LEFT JOIN probed AS s ON s.layer = t.layer;
COMMENT ON VIEW _layer_gap IS 'Private: may change without notice. Why the calls into a layer cannot be counted for a process';
COMMENT ON COLUMN _layer_gap.process_id IS 'The process';
COMMENT ON COLUMN _layer_gap.layer IS 'simulator, backend, cuda_api';
COMMENT ON COLUMN _layer_gap.reason IS 'Why not: not_captured, captured_in_part (coverage says why), or the code in facts; NULL: every call was recorded, since since_ns';
COMMENT ON COLUMN _layer_gap.facts IS 'The codes with their parameters, as in coverage';
COMMENT ON COLUMN _layer_gap.since_ns IS 'Since when calls were recorded; NULL: as long as the process was traced';

CREATE OR REPLACE VIEW transitions AS
WITH instance AS (
  SELECT o.thread_id, p.name AS operation, count(*) AS instances, min(o.start_ns) AS start_ns
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE p.source IS DISTINCT FROM 'lost'
  GROUP BY o.thread_id, p.name
), entered AS (
  SELECT
    c.thread_id,
    CASE WHEN c.path_id = 0 THEN '(unannotated)' ELSE p.name END AS operation,
    c.from_layer::VARCHAR AS from_layer,
    c.to_layer::VARCHAR AS to_layer,
    sum(c.count)::BIGINT AS count,
    coalesce(sum(c.count) FILTER (WHERE c.is_probed), 0)::BIGINT AS probed
  FROM transition_coded AS c LEFT JOIN operation_path AS p ON p.path_id = c.path_id
  GROUP BY ALL
), owned AS (
  SELECT t.process_id, e.thread_id, e.operation, e.from_layer, e.to_layer, e.count, e.probed
  FROM entered AS e LEFT JOIN thread AS t ON t.thread_id = e.thread_id
), place AS (
  SELECT thread_id, operation FROM entered
  UNION
  SELECT thread_id, operation FROM instance
  UNION
  SELECT thread_id, '(unannotated)' FROM thread WHERE thread_id NOT IN (SELECT thread_id FROM instance)
), counted AS (
  -- Instances of which every call was recorded: those that began no earlier than the probes came.
  SELECT o.thread_id, p.name AS operation, g.layer, count(*) AS instances
  FROM operation_coded AS o
  JOIN operation_path AS p ON p.path_id = o.path_id
  JOIN thread AS t ON t.thread_id = o.thread_id
  JOIN _layer_gap AS g ON g.process_id IS NOT DISTINCT FROM t.process_id
  WHERE p.source IS DISTINCT FROM 'lost' AND g.reason IS NULL AND (g.since_ns IS NULL OR o.start_ns >= g.since_ns)
  GROUP BY ALL
), gap AS (
  -- An operation that was there before the probes may have made calls that nobody recorded.
  SELECT
    t.process_id, p.thread_id, p.operation, g.layer,
    g.reason IS NULL AS is_probed,
    CASE
      WHEN g.reason IS NOT NULL THEN g.reason
      WHEN coalesce(i.start_ns, t.start_ns) < g.since_ns THEN 'probed_late'
    END AS reason,
    g.facts
  FROM place AS p
  JOIN thread AS t ON t.thread_id = p.thread_id
  JOIN _layer_gap AS g ON g.process_id IS NOT DISTINCT FROM t.process_id
  LEFT JOIN instance AS i ON i.thread_id = p.thread_id AND i.operation = p.operation
), reported AS (
  SELECT
    o.process_id, o.thread_id, o.operation, o.from_layer, o.to_layer,
    CASE WHEN g.reason IS NULL THEN o.count END AS count,
    CASE WHEN g.reason IS NULL THEN o.count WHEN g.is_probed THEN o.probed END AS counted,
    g.reason, g.facts
  FROM owned AS o
  LEFT JOIN gap AS g ON g.thread_id = o.thread_id AND g.operation = o.operation AND g.layer = o.to_layer
  UNION ALL
  SELECT
    g.process_id, g.thread_id, g.operation, NULL, g.layer, NULL, CASE WHEN g.is_probed THEN 0 END, g.reason, g.facts
  FROM gap AS g
  LEFT JOIN entered AS e ON e.thread_id = g.thread_id AND e.operation = g.operation AND e.to_layer = g.layer
  WHERE g.reason IS NOT NULL AND e.thread_id IS NULL
)
SELECT
  t.process_id, t.thread_id, t.operation, t.from_layer, t.to_layer, t.count,
  i.instances, t.counted,
  c.instances AS counted_instances, t.counted / c.instances AS per_instance,
  t.reason,
  CASE WHEN t.reason = 'probed_late' THEN
    [{'code': t.reason, 'subject': NULL::VARCHAR, 'detail': NULL::VARCHAR, 'count': NULL::BIGINT, 'ts_ns': NULL::BIGINT, 'duration_ns': NULL::BIGINT}]
  ELSE t.facts END AS facts
FROM reported AS t
LEFT JOIN instance AS i ON i.thread_id = t.thread_id AND i.operation = t.operation
LEFT JOIN counted AS c ON c.thread_id = t.thread_id AND c.operation = t.operation AND c.layer = t.to_layer;
COMMENT ON VIEW transitions IS 'How often a call entered another layer, by operation; from exact calls only. No row: never';
COMMENT ON COLUMN transitions.process_id IS 'The process of the thread';
COMMENT ON COLUMN transitions.thread_id IS 'The thread';
COMMENT ON COLUMN transitions.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN transitions.from_layer IS 'The layer that called; NULL: outside any known call, in a Python program as a rule Python';
COMMENT ON COLUMN transitions.to_layer IS 'The layer that was entered';
COMMENT ON COLUMN transitions.count IS 'How often; NULL: not measured, or not wholly';
COMMENT ON COLUMN transitions.instances IS 'How often the operation occurred on this thread; NULL: (unannotated), (lost)';
COMMENT ON COLUMN transitions.counted IS 'How often in counted_instances, of which every call was recorded; NULL: not measured';
COMMENT ON COLUMN transitions.counted_instances IS 'Instances that began no earlier than the probes of the layer came; NULL: there are none';
COMMENT ON COLUMN transitions.per_instance IS 'counted / counted_instances: per iteration, if the operation occurs once in each; NULL: one of them is';
COMMENT ON COLUMN transitions.reason IS 'Why count is NULL: not_captured, captured_in_part (coverage says why), or the code in facts; NULL: it is exact';
COMMENT ON COLUMN transitions.facts IS 'The same with its parameters, as in coverage: summarize --view transitions turns them into a sentence';
