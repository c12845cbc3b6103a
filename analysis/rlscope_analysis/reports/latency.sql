-- How long the GPU took to begin what each operation asked for.
SELECT
  l.process_id, p.pid, l.operation, l.call_name AS function, l.calls,
  l.mean_latency_ns, l.p50_latency_ns, l.p99_latency_ns, l.max_latency_ns,
  l.mean_queue_ns, l.p50_queue_ns, l.p99_queue_ns,
  l.before_return_share, l.before_call
FROM launch_latency AS l LEFT JOIN process AS p ON p.process_id = l.process_id
ORDER BY l.calls DESC, l.process_id, l.operation, l.call_name
