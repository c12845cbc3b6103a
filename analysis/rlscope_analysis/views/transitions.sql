-- How often Python entered the simulator, the backend and the CUDA API: exact calls only.
CREATE OR REPLACE VIEW transitions AS
WITH instance AS (
  SELECT o.thread_id, p.name AS operation, count(*) AS instances
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  GROUP BY o.thread_id, p.name
), entered AS (
  SELECT
    c.thread_id,
    CASE WHEN c.path_id = 0 THEN '(unannotated)' ELSE p.name END AS operation,
    CASE c.from_layer WHEN 1 THEN 'python' WHEN 2 THEN 'simulator' WHEN 3 THEN 'backend' WHEN 4 THEN 'cuda_api' WHEN 5 THEN 'spin' WHEN 6 THEN 'other' END AS from_layer,
    CASE c.to_layer WHEN 1 THEN 'python' WHEN 2 THEN 'simulator' WHEN 3 THEN 'backend' WHEN 4 THEN 'cuda_api' WHEN 5 THEN 'spin' WHEN 6 THEN 'other' END AS to_layer,
    sum(c.count)::BIGINT AS count
  FROM transition_coded AS c LEFT JOIN operation_path AS p ON p.path_id = c.path_id
  GROUP BY ALL
)
SELECT
  t.process_id, e.thread_id, e.operation, e.from_layer, e.to_layer, e.count,
  i.instances, e.count / i.instances AS per_instance
FROM entered AS e
LEFT JOIN thread AS t ON t.thread_id = e.thread_id
LEFT JOIN instance AS i ON i.thread_id = e.thread_id AND i.operation = e.operation;
COMMENT ON VIEW transitions IS 'How often a call entered another layer, by operation; from exact calls only, so a thread whose calls were not measured has no row';
COMMENT ON COLUMN transitions.process_id IS 'The process of the thread';
COMMENT ON COLUMN transitions.thread_id IS 'The thread';
COMMENT ON COLUMN transitions.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN transitions.from_layer IS 'The layer that called; NULL: outside any known call, in a Python program as a rule Python';
COMMENT ON COLUMN transitions.to_layer IS 'The layer that was entered';
COMMENT ON COLUMN transitions.count IS 'How often';
COMMENT ON COLUMN transitions.instances IS 'How often the operation occurred on this thread; NULL: (unannotated)';
COMMENT ON COLUMN transitions.per_instance IS 'count / instances: per iteration, if the operation occurs once in each';
