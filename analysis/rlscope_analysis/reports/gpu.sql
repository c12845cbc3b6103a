-- GPU time: the union of what was under way, and the sum, in every scope.
SELECT
  g.scope,
  CASE g.scope
    WHEN 'trace' THEN 'all'
    WHEN 'process' THEN 'process ' || coalesce(p.pid::VARCHAR, '?') || coalesce(' ' || p.name, '')
    WHEN 'device' THEN coalesce(g.host || ' ', '') || 'GPU ' || g.device_id || coalesce(' ' || d.name, '')
    WHEN 'stream' THEN 'process ' || coalesce(p.pid::VARCHAR, '?') || ' GPU ' || g.device_id || ' stream ' || coalesce(g.stream_id::VARCHAR, '?')
    ELSE g.kind
  END AS what,
  g.activities, g.sum_ns, g.busy_ns, g.idle_ns, g.span_ns,
  g.busy_ns / nullif(g.span_ns, 0) AS busy_share
FROM gpu_time AS g
LEFT JOIN process AS p ON p.process_id = g.process_id
LEFT JOIN gpu_device AS d ON g.scope = 'device' AND d.device_id = g.device_id AND d.host IS NOT DISTINCT FROM g.host
ORDER BY list_position(['trace', 'process', 'device', 'stream', 'kind'], g.scope), g.busy_ns DESC, what
