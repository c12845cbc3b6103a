-- Time on a CPU as measured, what recording cost, and what is left: of each level the rows add up to the
-- one above. Of one kind of event errors add up, those of different kinds are independent.
WITH part AS (
  SELECT
    grouping(process_id, operation, bucket) AS level, process_id, operation, bucket,
    sum(time_ns)::BIGINT AS time_ns, sum(overhead_ns)::BIGINT AS overhead_ns,
    bool_and(overhead_ns IS NOT NULL) AS is_known
  FROM breakdown_corrected
  WHERE on_cpu
  GROUP BY GROUPING SETS ((process_id, operation, bucket), (process_id, operation), (process_id), ())
), by_event AS (
  SELECT
    grouping(process_id, operation, bucket) AS level, process_id, operation, bucket, event,
    sum(below_ns) AS below_ns, sum(above_ns) AS above_ns
  FROM _overhead_part
  GROUP BY GROUPING SETS ((process_id, operation, bucket, event), (process_id, operation, event), (process_id, event), (event))
), error AS (
  SELECT
    level, process_id, operation, bucket,
    sqrt(sum(pow(below_ns, 2))) AS below_ns, sqrt(sum(pow(above_ns, 2))) AS above_ns
  FROM by_event GROUP BY ALL
), reported AS (
  SELECT
    c.level, c.process_id, c.operation, c.bucket, c.time_ns,
    CASE WHEN c.is_known THEN c.overhead_ns END AS overhead_ns,
    CASE WHEN c.is_known THEN round(coalesce(e.below_ns, 0))::BIGINT END AS below_ns,
    CASE WHEN c.is_known THEN round(coalesce(e.above_ns, 0))::BIGINT END AS above_ns
  FROM part AS c LEFT JOIN error AS e
    ON e.level = c.level AND e.process_id IS NOT DISTINCT FROM c.process_id
      AND e.operation IS NOT DISTINCT FROM c.operation AND e.bucket IS NOT DISTINCT FROM c.bucket
)
SELECT
  CASE t.level WHEN 0 THEN 'bucket' WHEN 1 THEN 'operation' WHEN 3 THEN 'process' ELSE 'trace' END AS scope,
  t.process_id, p.pid, p.name AS process, t.operation, t.bucket,
  t.time_ns, t.overhead_ns,
  t.overhead_ns - t.below_ns AS overhead_low_ns,
  t.overhead_ns + t.above_ns AS overhead_high_ns,
  t.time_ns - t.overhead_ns AS corrected_ns,
  t.time_ns - t.overhead_ns - t.above_ns AS corrected_low_ns,
  t.time_ns - t.overhead_ns + t.below_ns AS corrected_high_ns,
  t.overhead_ns / nullif(t.time_ns, 0) AS overhead_share
FROM reported AS t LEFT JOIN process AS p ON p.process_id = t.process_id
WHERE t.time_ns IS NOT NULL
ORDER BY
  t.level <> 7,
  max(t.time_ns) OVER (PARTITION BY t.level = 7, t.process_id) DESC, t.process_id,
  t.level < 3,
  max(t.time_ns) OVER (PARTITION BY t.level < 3, t.process_id, t.operation) DESC, t.operation,
  t.level = 0, t.time_ns DESC, t.bucket
