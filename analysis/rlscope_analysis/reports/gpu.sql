-- GPU time: the union of what was under way, and the sum, in every scope.
WITH device AS (
  -- Each rank of a machine may have reported its GPUs.
  SELECT host, device_id, min(name) AS name FROM gpu_device GROUP BY host, device_id
), named AS (
  -- Numbers of streams are those of their context; where several have one number, none is named.
  SELECT process_id, device_id, stream_id, min(name) AS name
  FROM gpu_stream
  WHERE stream_id IS NOT NULL
  GROUP BY process_id, device_id, stream_id
  HAVING count(DISTINCT context_id) = 1
)
SELECT
  g.scope, g.process_id, p.pid, g.host, g.device_id, g.stream_id, g.kind,
  CASE g.scope WHEN 'process' THEN p.name WHEN 'device' THEN d.name WHEN 'stream' THEN s.name END AS name,
  g.activities, g.sum_ns, g.busy_ns, g.idle_ns, g.span_ns,
  g.busy_ns / nullif(g.span_ns, 0) AS busy_share
FROM gpu_time AS g
LEFT JOIN process AS p ON p.process_id = g.process_id
LEFT JOIN named AS s
  ON g.scope = 'stream' AND s.process_id = g.process_id AND s.device_id = g.device_id AND s.stream_id = g.stream_id
LEFT JOIN device AS d ON g.scope = 'device' AND d.device_id = g.device_id AND d.host IS NOT DISTINCT FROM g.host
ORDER BY
  list_position(['trace', 'machine', 'process', 'device', 'stream', 'kind'], g.scope), g.busy_ns DESC,
  CASE g.scope WHEN 'process' THEN p.name END NULLS FIRST, p.pid, g.host, g.device_id, g.stream_id, g.kind, g.process_id
