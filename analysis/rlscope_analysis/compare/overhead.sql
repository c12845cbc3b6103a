-- Which part of the CPU time of each operation recording cost, as far as the costs of its events are
-- known. No row at all: none is.
WITH paid AS (
  SELECT operation, sum(overhead_ns) AS overhead_ns FROM _overhead_part GROUP BY operation
), ran AS (
  SELECT coalesce(p.name, '(unannotated)') AS operation, sum(o.time_ns) AS time_ns
  FROM thread_overlap_coded AS o LEFT JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE o.state = 'running' GROUP BY ALL
)
SELECT regexp_replace(r.operation, '#[0-9]+$', ''), least(sum(coalesce(p.overhead_ns, 0)) / nullif(sum(r.time_ns), 0), 1)
FROM ran AS r LEFT JOIN paid AS p ON p.operation = r.operation
WHERE EXISTS (FROM calibration WHERE used AND mean_ns IS NOT NULL)
GROUP BY ALL
