-- For which process threads waited at pipes, sockets and for children.
SELECT
  w.process_id, p.pid, coalesce(p.name, '(no name)') AS process, w.operation, w.wait,
  CASE
    WHEN w.peer_process_id = w.process_id THEN '(itself)'
    WHEN w.peer_process_id IS NOT NULL THEN coalesce(w.peer_name, '(no name)')
    WHEN w.peer_kind = 'outside' THEN '(outside the trace)'
    WHEN w.peer_kind = 'timer' THEN '(a timer)'
    WHEN w.peer_kind = 'device' THEN '(a device or the network)'
    WHEN w.peer_kind = 'interrupt' THEN '(a timer or device)'
    ELSE '(not known)'
  END AS waited_for,
  w.peer_pid, w.peer_process_id,
  sum(w.time_ns)::BIGINT AS time_ns,
  sum(w.time_ns) / nullif(sum(sum(w.time_ns)) OVER (), 0) AS share,
  sum(w.count)::BIGINT AS count
FROM waits_on_peer AS w LEFT JOIN process AS p ON p.process_id = w.process_id
GROUP BY ALL
ORDER BY time_ns DESC, w.process_id, w.operation, w.wait, waited_for, w.peer_pid
