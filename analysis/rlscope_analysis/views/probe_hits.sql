-- The events that cost a traced thread time, where they fell.
CREATE OR REPLACE VIEW probe_hits AS
SELECT
  t.process_id, h.thread_id,
  CASE WHEN h.path_id = 0 THEN '(unannotated)' ELSE p.name END AS operation,
  h.layer::VARCHAR AS layer,
  h.gpu AS gpu_busy, h.event::VARCHAR AS event,
  CASE WHEN h.inside THEN 'inside' ELSE 'outside' END AS part,
  sum(h.hits)::BIGINT AS hits
FROM probe_hits_coded AS h
LEFT JOIN thread AS t ON t.thread_id = h.thread_id
LEFT JOIN operation_path AS p ON p.path_id = h.path_id
GROUP BY ALL;
COMMENT ON VIEW probe_hits IS 'How many events with a cost fell on each thread, operation and layer while it ran: what breakdown_corrected multiplies by calibration';
COMMENT ON COLUMN probe_hits.process_id IS 'The process of the thread';
COMMENT ON COLUMN probe_hits.thread_id IS 'The thread that paid';
COMMENT ON COLUMN probe_hits.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN probe_hits.layer IS 'The innermost known call: python, simulator, backend, cuda_api; NULL: inside none';
COMMENT ON COLUMN probe_hits.gpu_busy IS 'Whether a GPU worked for the process at that time; NULL: not measured';
COMMENT ON COLUMN probe_hits.event IS 'Kind of event: as in calibration';
COMMENT ON COLUMN probe_hits.part IS 'Which part of its cost is paid here: as in calibration. Of a call or an operation each part is one row; all else is outside';
COMMENT ON COLUMN probe_hits.hits IS 'How many';
