-- Who waited for the GIL, and who had it.
SELECT
  g.process_id, p.pid, t.tid, t.name AS thread,
  h.name AS holder, h.tid AS holder_tid, g.thread_id, g.holder_thread_id,
  count(*) AS waits,
  sum(g.wait_ns)::BIGINT AS time_ns,
  sum(g.wait_ns) / nullif(sum(sum(g.wait_ns)) OVER (), 0) AS share,
  max(g.wait_ns) AS max_ns
FROM gil_wait AS g
LEFT JOIN thread AS t ON t.thread_id = g.thread_id
LEFT JOIN thread AS h ON h.thread_id = g.holder_thread_id
LEFT JOIN process AS p ON p.process_id = g.process_id
GROUP BY ALL
ORDER BY time_ns DESC, g.thread_id, g.holder_thread_id
