-- Thread x bucket: the lifetime of each thread.
SELECT
  b.process_id, b.thread_id, p.pid, t.tid, t.name, b.bucket, b.time_ns, b.share, b.lifetime_ns,
  b.sampled_ns, b.stderr_ns
FROM thread_bucket AS b
JOIN thread AS t ON t.thread_id = b.thread_id
LEFT JOIN process AS p ON p.process_id = b.process_id
ORDER BY b.lifetime_ns DESC, b.thread_id, b.bucket
