-- The thread that speaks for its process: what it has to do makes the process longer.
CREATE OR REPLACE VIEW _leading_thread AS
WITH annotated AS (
  SELECT o.thread_id, sum(o.end_ns - o.start_ns) AS time_ns
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE p.depth = 0
  GROUP BY o.thread_id
), ran AS (
  SELECT thread_id, sum(time_ns) FILTER (WHERE state = 'running') AS time_ns
  FROM thread_overlap_coded GROUP BY thread_id
)
SELECT
  t.process_id,
  arg_max(t.thread_id, (coalesce(a.time_ns, 0), coalesce(r.time_ns, 0), -t.thread_id)) AS thread_id
FROM thread AS t
LEFT JOIN annotated AS a ON a.thread_id = t.thread_id
LEFT JOIN ran AS r ON r.thread_id = t.thread_id
GROUP BY t.process_id;
COMMENT ON VIEW _leading_thread IS 'Private: may change without notice. The leading thread of each process: the one with the most time in operations; without any, the one that ran longest';
COMMENT ON COLUMN _leading_thread.process_id IS 'The process';
COMMENT ON COLUMN _leading_thread.thread_id IS 'Its leading thread';
