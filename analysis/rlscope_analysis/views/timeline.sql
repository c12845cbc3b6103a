-- Everything that has a beginning and an end, on all tracks, in one shape.
CREATE OR REPLACE VIEW timeline AS
SELECT
  'thread_state' AS track, process_id, pid, thread_id, NULL::INTEGER AS device_id, NULL::BIGINT AS stream_id,
  start_ns, end_ns, duration_ns, state AS name, NULL::VARCHAR AS category, NULL::INTEGER AS depth, NULL::BIGINT AS correlation_id
FROM thread_state
UNION ALL
SELECT 'operation', process_id, pid, thread_id, NULL, NULL, start_ns, end_ns, duration_ns, name, category, depth, NULL
FROM operation
UNION ALL
SELECT 'async_range', process_id, pid, NULL, NULL, NULL, start_ns, end_ns, duration_ns, name, domain, NULL, NULL
FROM async_range
UNION ALL
SELECT 'native_call', c.process_id, c.pid, c.thread_id, NULL, NULL, c.start_ns, c.end_ns, c.duration_ns, s.symbol, c.layer, c.depth, NULL
FROM native_call AS c LEFT JOIN site AS s ON s.site_id = c.site_id
UNION ALL
SELECT 'cuda_call', process_id, pid, thread_id, NULL, NULL, start_ns, end_ns, duration_ns, name, kind, NULL, correlation_id
FROM cuda_call
UNION ALL
SELECT 'wait', process_id, pid, thread_id, NULL, NULL, start_ns, end_ns, duration_ns, kind, NULL, NULL, NULL
FROM wait
UNION ALL
SELECT 'gpu_activity', process_id, pid, NULL, device_id, stream_id, start_ns, end_ns, duration_ns, name, kind, NULL, correlation_id
FROM gpu_activity;
COMMENT ON VIEW timeline IS 'All slices of all tracks in one shape';
COMMENT ON COLUMN timeline.track IS 'The relation it comes from: thread_state, operation, async_range, native_call, cuda_call, wait, gpu_activity';
COMMENT ON COLUMN timeline.process_id IS 'The process';
COMMENT ON COLUMN timeline.pid IS 'Its process id; NULL: not known';
COMMENT ON COLUMN timeline.thread_id IS 'The thread; NULL: a GPU, or no thread in particular';
COMMENT ON COLUMN timeline.device_id IS 'The GPU; NULL: a thread';
COMMENT ON COLUMN timeline.stream_id IS 'The stream of a GPU activity';
COMMENT ON COLUMN timeline.start_ns IS 'Start';
COMMENT ON COLUMN timeline.end_ns IS 'End';
COMMENT ON COLUMN timeline.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN timeline.name IS 'State, operation, function, reason of a wait, or kernel';
COMMENT ON COLUMN timeline.category IS 'Category of an operation, domain of an async_range, layer of a native call, kind of a CUDA call or of a GPU activity';
COMMENT ON COLUMN timeline.depth IS 'How many slices of its track are around it; NULL: not known, or slices of the track do not nest';
COMMENT ON COLUMN timeline.correlation_id IS 'What ties a CUDA call to the GPU activities it caused, within the process';
