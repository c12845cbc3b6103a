-- What the operations of a process say that it is for.
CREATE OR REPLACE VIEW _marked_process AS
SELECT
  t.process_id, bool_or(p.name = 'simulation') AS simulates, bool_or(p.name = 'backpropagation') AS learns
FROM operation_coded AS o
JOIN operation_path AS p ON p.path_id = o.path_id
JOIN thread AS t ON t.thread_id = o.thread_id
WHERE p.source <> 'lost'
GROUP BY t.process_id;
COMMENT ON VIEW _marked_process IS 'Private: may change without notice. Processes that have operations, and which phases are among them';
COMMENT ON COLUMN _marked_process.process_id IS 'The process';
COMMENT ON COLUMN _marked_process.simulates IS 'Whether it has simulation';
COMMENT ON COLUMN _marked_process.learns IS 'Whether it has backpropagation';
