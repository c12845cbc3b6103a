-- What was measured for which process: the base of every view that tells NULL from 0.
CREATE OR REPLACE VIEW _covered AS
SELECT
  process_id, kind, bool_or(measured) AS measured, coalesce(bool_or(measured AND part), FALSE) AS part,
  list_sort(list_distinct(list(
    {'code': code, 'subject': subject, 'detail': detail, 'count': count, 'ts_ns': ts_ns, 'duration_ns': duration_ns}
  ) FILTER (WHERE code IS NOT NULL))) AS facts
FROM coverage
GROUP BY process_id, kind;
COMMENT ON VIEW _covered IS 'Private: may change without notice. What coverage says of a process and a kind of record, in one row';
COMMENT ON COLUMN _covered.process_id IS 'As in coverage';
COMMENT ON COLUMN _covered.kind IS 'As in coverage';
COMMENT ON COLUMN _covered.measured IS 'Whether it was measured';
COMMENT ON COLUMN _covered.part IS 'Whether some of it was not';
COMMENT ON COLUMN _covered.facts IS 'How, or why not: the codes with their parameters; NULL: nothing to say';

CREATE OR REPLACE VIEW _measured AS
WITH known AS (
  SELECT process_id FROM process UNION SELECT process_id FROM thread
), kinds AS (
  SELECT DISTINCT kind FROM _covered
)
SELECT p.process_id, k.kind, coalesce(own.measured, every.measured, FALSE) AS measured
FROM known AS p CROSS JOIN kinds AS k
LEFT JOIN _covered AS own ON own.process_id = p.process_id AND own.kind = k.kind
LEFT JOIN _covered AS every ON every.process_id IS NULL AND every.kind = k.kind;
COMMENT ON VIEW _measured IS 'Private: may change without notice. Whether a kind of record was measured for a process; no row: it was not';
COMMENT ON COLUMN _measured.process_id IS 'The process';
COMMENT ON COLUMN _measured.kind IS 'As in coverage';
COMMENT ON COLUMN _measured.measured IS 'Whether it was measured';

-- As LATE_GPU_SQL in sweep/thread_plan.py.
CREATE OR REPLACE VIEW _late_gpu AS
SELECT process_id, min(ts_ns) AS from_ns
FROM gpu_status
WHERE state = 'on' AND ts_ns IS NOT NULL
GROUP BY process_id
HAVING coalesce(arg_min(is_late, ts_ns), FALSE);
COMMENT ON VIEW _late_gpu IS 'Private: may change without notice. Processes that had run before their GPU activity was recorded';
COMMENT ON COLUMN _late_gpu.process_id IS 'The process';
COMMENT ON COLUMN _late_gpu.from_ns IS 'Since when it was';
