-- For which process threads waited at pipes, sockets and for children.
SELECT
  w.process_id, p.pid, p.name AS process, w.operation, w.wait,
  w.peer_name AS waited_for, w.peer_pid, w.peer_kind, w.peer_process_id,
  sum(w.time_ns)::BIGINT AS time_ns,
  sum(w.time_ns) / nullif(sum(sum(w.time_ns)) OVER (), 0) AS share,
  sum(w.count)::BIGINT AS count
FROM waits_on_peer AS w LEFT JOIN process AS p ON p.process_id = w.process_id
GROUP BY ALL
ORDER BY time_ns DESC, w.process_id, w.operation, w.wait, waited_for, w.peer_pid
