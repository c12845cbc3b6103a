-- What recording cost the target, by kind of event, and what one event costs by which method.
WITH hit AS (
  -- Of events with an interval both parts are counted.
  SELECT
    event, sum(hits) FILTER (WHERE part = 'outside')::BIGINT AS hits
  FROM probe_hits GROUP BY event
), cost AS (
  SELECT
    event, sum(mean_ns) AS cost_ns,
    min({'quality': quality, 'code': code, 'subject': subject, 'detail': detail, 'numbers': numbers}) FILTER (WHERE quality <> 'ok') AS quality
  FROM calibration WHERE used AND mean_ns IS NOT NULL
  GROUP BY event
), missing AS (
  SELECT
    event, min({'quality': quality, 'code': code, 'subject': subject, 'detail': detail, 'numbers': numbers}) AS quality
  FROM calibration WHERE mean_ns IS NULL AND method = 'micro' GROUP BY event
), paid AS (
  SELECT
    event,
    CASE WHEN bool_and(overhead_ns IS NOT NULL) THEN sum(overhead_ns) END AS overhead_ns,
    sum(below_ns) AS below_ns, sum(above_ns) AS above_ns
  FROM _overhead_part GROUP BY event
), cpu AS (
  SELECT sum(time_ns) AS time_ns FROM thread_overlap_coded WHERE state = 'running'
)
SELECT
  event, h.hits, c.cost_ns / 1000 AS cost_us,
  round(p.overhead_ns)::BIGINT AS overhead_ns,
  round(p.overhead_ns - p.below_ns)::BIGINT AS overhead_low_ns,
  round(p.overhead_ns + p.above_ns)::BIGINT AS overhead_high_ns,
  p.overhead_ns / nullif(cpu.time_ns, 0) AS share,
  CASE
    WHEN c.event IS NULL THEN coalesce(m.quality, {'quality': 'not_measured', 'code': NULL, 'subject': NULL, 'detail': NULL, 'numbers': NULL})
    ELSE coalesce(c.quality, {'quality': 'ok', 'code': NULL, 'subject': NULL, 'detail': NULL, 'numbers': NULL})
  END AS quality
FROM hit AS h
LEFT JOIN cost AS c USING (event)
LEFT JOIN missing AS m USING (event)
LEFT JOIN paid AS p USING (event)
CROSS JOIN cpu
ORDER BY overhead_ns DESC NULLS LAST, event
