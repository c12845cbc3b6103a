-- What recording cost the target, taken off where it was paid: hits x cost. An interval of running time
-- that samples split among layers has its overhead split by the same shares.
-- The error of the cost of one kind of event is common to all of its events: within a kind errors add up,
-- errors of different kinds are independent.
CREATE OR REPLACE VIEW _overhead_part AS
WITH cost AS (
  SELECT event, part = 'inside' AS inside, mean_ns, low_ns, high_ns
  FROM calibration WHERE used AND mean_ns IS NOT NULL
), paid AS (
  SELECT
    h.thread_id, h.path_id, h.layer, h.gpu, h.event,
    sum(h.hits)::DOUBLE AS hits,
    CASE WHEN bool_and(c.event IS NOT NULL) THEN sum(h.hits * c.mean_ns) END AS overhead_ns,
    sum(h.hits * (c.mean_ns - c.low_ns)) AS below_ns,
    sum(h.hits * (c.high_ns - c.mean_ns)) AS above_ns
  FROM probe_hits_coded AS h LEFT JOIN cost AS c ON c.event = h.event AND c.inside = h.inside
  GROUP BY h.thread_id, h.path_id, h.layer, h.gpu, h.event
), share AS (
  SELECT
    thread_id, path_id, call_layer, gpu, layer,
    time_ns / sum(time_ns) OVER (PARTITION BY thread_id, path_id, call_layer, gpu) AS share
  FROM layer_estimate_coded
)
SELECT
  t.process_id, p.thread_id,
  CASE WHEN p.path_id = 0 THEN '(unannotated)' ELSE o.name END AS operation,
  coalesce(CASE WHEN s.thread_id IS NULL THEN p.layer ELSE s.layer END::VARCHAR, 'running') AS bucket,
  p.gpu AS gpu_busy, p.event::VARCHAR AS event,
  p.hits * coalesce(s.share, 1) AS hits,
  p.overhead_ns * coalesce(s.share, 1) AS overhead_ns,
  p.below_ns * coalesce(s.share, 1) AS below_ns,
  p.above_ns * coalesce(s.share, 1) AS above_ns
FROM paid AS p
LEFT JOIN share AS s
  ON s.thread_id = p.thread_id AND s.path_id = p.path_id AND s.call_layer IS NOT DISTINCT FROM p.layer
    AND s.gpu IS NOT DISTINCT FROM p.gpu AND s.share > 0
LEFT JOIN thread AS t ON t.thread_id = p.thread_id
LEFT JOIN operation_path AS o ON o.path_id = p.path_id;
COMMENT ON VIEW _overhead_part IS 'Private: may change without notice. The overhead of each kind of event by the rows of breakdown';
COMMENT ON COLUMN _overhead_part.process_id IS 'As in breakdown';
COMMENT ON COLUMN _overhead_part.thread_id IS 'As in breakdown';
COMMENT ON COLUMN _overhead_part.operation IS 'As in breakdown';
COMMENT ON COLUMN _overhead_part.bucket IS 'As in breakdown';
COMMENT ON COLUMN _overhead_part.gpu_busy IS 'As in breakdown';
COMMENT ON COLUMN _overhead_part.event IS 'As in calibration';
COMMENT ON COLUMN _overhead_part.hits IS 'How many events, or parts of one: not whole where samples split the time. Both parts of a call or an operation count one each';
COMMENT ON COLUMN _overhead_part.overhead_ns IS 'What they cost; NULL: not measured';
COMMENT ON COLUMN _overhead_part.below_ns IS 'How far the 95 % interval reaches below; of one kind of event it adds up';
COMMENT ON COLUMN _overhead_part.above_ns IS 'How far it reaches above';

CREATE OR REPLACE VIEW breakdown_corrected AS
WITH by_event AS (
  SELECT
    process_id, thread_id, operation, bucket, gpu_busy, event,
    sum(overhead_ns) AS overhead_ns, bool_and(overhead_ns IS NOT NULL) AS is_known,
    sum(below_ns) AS below_ns, sum(above_ns) AS above_ns
  FROM _overhead_part GROUP BY ALL
), paid AS (
  SELECT
    process_id, thread_id, operation, bucket, gpu_busy,
    sum(overhead_ns) AS overhead_ns, bool_and(is_known) AS is_known,
    sqrt(sum(pow(below_ns, 2))) AS below_ns, sqrt(sum(pow(above_ns, 2))) AS above_ns
  FROM by_event GROUP BY ALL
), calibrated AS (
  SELECT EXISTS (FROM calibration WHERE used AND mean_ns IS NOT NULL) AS is_so
), joined AS (
  SELECT
    coalesce(b.process_id, p.process_id) AS process_id,
    coalesce(b.thread_id, p.thread_id) AS thread_id,
    coalesce(b.operation, p.operation) AS operation,
    coalesce(b.bucket, p.bucket) AS bucket,
    -- What is paid is paid on a CPU.
    CASE WHEN b.bucket IS NULL THEN TRUE ELSE b.on_cpu END AS on_cpu,
    coalesce(b.gpu_busy, p.gpu_busy) AS gpu_busy,
    coalesce(b.time_ns, 0) AS time_ns,
    CASE WHEN NOT coalesce(p.is_known, TRUE) THEN NULL ELSE coalesce(p.overhead_ns, 0) END AS paid_ns,
    coalesce(p.below_ns, 0) AS below_ns, coalesce(p.above_ns, 0) AS above_ns
  FROM breakdown AS b FULL JOIN paid AS p
    ON b.process_id IS NOT DISTINCT FROM p.process_id AND b.thread_id = p.thread_id
      AND b.operation IS NOT DISTINCT FROM p.operation AND b.bucket = p.bucket
      AND b.gpu_busy IS NOT DISTINCT FROM p.gpu_busy
), known AS (
  -- Where nobody measured whether a thread ran, nobody knows what it paid.
  SELECT
    j.process_id, j.thread_id, j.operation, j.bucket, j.on_cpu, j.gpu_busy, j.time_ns, j.below_ns, j.above_ns,
    CASE
      WHEN c.is_so AND j.bucket <> 'unknown'
        AND j.thread_id IN (SELECT thread_id FROM thread_overlap_coded WHERE state IS NOT NULL)
      THEN j.paid_ns
    END AS paid_ns
  FROM joined AS j
  CROSS JOIN calibrated AS c
)
SELECT
  process_id, thread_id, operation, bucket, on_cpu, gpu_busy, time_ns,
  round(paid_ns)::BIGINT AS overhead_ns,
  round(paid_ns - below_ns)::BIGINT AS overhead_low_ns,
  round(paid_ns + above_ns)::BIGINT AS overhead_high_ns,
  time_ns - round(paid_ns)::BIGINT AS corrected_ns,
  time_ns - round(paid_ns + above_ns)::BIGINT AS corrected_low_ns,
  time_ns - round(paid_ns - below_ns)::BIGINT AS corrected_high_ns
FROM known;
COMMENT ON VIEW breakdown_corrected IS 'breakdown with what recording cost taken off where it was paid: measured = corrected + overhead, to the nanosecond. Of intervals of several rows see docs/overhead.md';
COMMENT ON COLUMN breakdown_corrected.process_id IS 'The process of the thread';
COMMENT ON COLUMN breakdown_corrected.thread_id IS 'The thread';
COMMENT ON COLUMN breakdown_corrected.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN breakdown_corrected.bucket IS 'As in breakdown; off the CPU nothing is corrected';
COMMENT ON COLUMN breakdown_corrected.on_cpu IS 'As in breakdown';
COMMENT ON COLUMN breakdown_corrected.gpu_busy IS 'As in breakdown';
COMMENT ON COLUMN breakdown_corrected.time_ns IS 'How long, as measured; 0: only overhead fell here';
COMMENT ON COLUMN breakdown_corrected.overhead_ns IS 'What recording cost here, in CPU time; NULL: not measured';
COMMENT ON COLUMN breakdown_corrected.overhead_low_ns IS 'Start of the interval that holds it with 95 % confidence';
COMMENT ON COLUMN breakdown_corrected.overhead_high_ns IS 'End of it';
COMMENT ON COLUMN breakdown_corrected.corrected_ns IS 'time_ns - overhead_ns. Negative where the cost is taken for too much: that is shown, not hidden';
COMMENT ON COLUMN breakdown_corrected.corrected_low_ns IS 'Start of the interval that holds it with 95 % confidence';
COMMENT ON COLUMN breakdown_corrected.corrected_high_ns IS 'End of it';
