-- No process can end a collective before the last one began it. window.py shows those of the whole
-- trace of which both ends lie in the window.
CREATE OR REPLACE VIEW _flow_collective AS
WITH last_begun AS (
  SELECT
    collective_id,
    max({
      'start_ns': start_ns, 'process_id': process_id, 'device_id': device_id, 'stream_id': stream_id
    }) AS activity
  FROM gpu_collective_coded
  GROUP BY collective_id
)
SELECT DISTINCT
  l.activity.process_id AS from_process_id, l.activity.device_id AS from_device_id,
  l.activity.stream_id AS from_stream_id, l.activity.start_ns AS from_ns,
  c.process_id AS to_process_id, c.device_id AS to_device_id, c.stream_id AS to_stream_id,
  c.end_ns AS to_ns, c.correlation_id
FROM last_begun AS l
JOIN gpu_collective_coded AS c
  ON c.collective_id = l.collective_id AND c.process_id <> l.activity.process_id
WHERE l.activity.start_ns <= c.end_ns
  AND EXISTS (
    FROM gpu_activity_coded AS a
    WHERE a.process_id = l.activity.process_id AND a.start_ns = l.activity.start_ns
      AND a.device_id IS NOT DISTINCT FROM l.activity.device_id
      AND a.stream_id IS NOT DISTINCT FROM l.activity.stream_id
  )
  AND EXISTS (
    FROM gpu_activity_coded AS a
    WHERE a.process_id = c.process_id AND a.end_ns = c.end_ns
      AND a.device_id IS NOT DISTINCT FROM c.device_id
      AND a.stream_id IS NOT DISTINCT FROM c.stream_id
  );
COMMENT ON VIEW _flow_collective IS 'Private: may change without notice. The edges of flow from the process that began a collective last to all others';
COMMENT ON COLUMN _flow_collective.from_process_id IS 'As in flow';
COMMENT ON COLUMN _flow_collective.from_device_id IS 'As in flow';
COMMENT ON COLUMN _flow_collective.from_stream_id IS 'As in flow';
COMMENT ON COLUMN _flow_collective.from_ns IS 'As in flow';
COMMENT ON COLUMN _flow_collective.to_process_id IS 'As in flow';
COMMENT ON COLUMN _flow_collective.to_device_id IS 'As in flow';
COMMENT ON COLUMN _flow_collective.to_stream_id IS 'As in flow';
COMMENT ON COLUMN _flow_collective.to_ns IS 'As in flow';
COMMENT ON COLUMN _flow_collective.correlation_id IS 'As in flow';
