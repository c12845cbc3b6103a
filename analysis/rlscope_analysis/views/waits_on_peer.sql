-- For which process a thread waited at a pipe, a socket, several files, or for the end of a child.
-- The one whose thread ended the wait is taken for the peer.
CREATE OR REPLACE VIEW waits_on_peer AS
WITH waited AS (
  SELECT
    w.thread_id, w.start_ns, w.end_ns - w.start_ns AS time_ns,
    w.kind::VARCHAR AS wait,
    s.waker_kind, s.waker_thread_id
  FROM wait_coded AS w
  LEFT JOIN thread_state_coded AS s ON s.thread_id = w.thread_id AND s.start_ns = w.end_ns AND s.state = 'runnable'
  WHERE w.kind IN ('pipe', 'socket', 'poll', 'process')
), placed AS (
  SELECT w.thread_id, w.time_ns, w.wait, w.waker_kind, w.waker_thread_id, o.path_id
  FROM waited AS w
  ASOF LEFT JOIN _operation_change AS o ON o.thread_id = w.thread_id AND o.ts_ns <= w.start_ns
), named AS (
  SELECT
    t.process_id, w.thread_id, w.wait, w.time_ns,
    CASE WHEN coalesce(w.path_id, 0) = 0 THEN '(unannotated)' ELSE p.name END AS operation,
    k.process_id AS peer_process_id,
    CASE WHEN w.waker_kind = 'thread' THEN 'process' ELSE coalesce(w.waker_kind::VARCHAR, 'unknown') END AS peer_kind
  FROM placed AS w
  LEFT JOIN thread AS t ON t.thread_id = w.thread_id
  LEFT JOIN thread AS k ON k.thread_id = w.waker_thread_id
  LEFT JOIN operation_path AS p ON p.path_id = w.path_id
)
SELECT
  n.process_id, n.thread_id, n.operation, n.wait, n.peer_kind, n.peer_process_id,
  any_value(q.pid) AS peer_pid, any_value(q.name) AS peer_name,
  sum(n.time_ns)::BIGINT AS time_ns,
  count(*) AS count
FROM named AS n LEFT JOIN process AS q ON q.process_id = n.peer_process_id
GROUP BY n.process_id, n.thread_id, n.operation, n.wait, n.peer_kind, n.peer_process_id;
COMMENT ON VIEW waits_on_peer IS 'How long each thread waited at pipes, sockets and for children, by the process whose thread ended the wait';
COMMENT ON COLUMN waits_on_peer.process_id IS 'The process of the thread';
COMMENT ON COLUMN waits_on_peer.thread_id IS 'The thread that waited';
COMMENT ON COLUMN waits_on_peer.operation IS 'The innermost operation open when it began to wait; (unannotated): none was';
COMMENT ON COLUMN waits_on_peer.wait IS 'pipe, socket, poll (one of several files), process (the end of a child)';
COMMENT ON COLUMN waits_on_peer.peer_kind IS 'Who ended it: process (a traced one, also its own), timer (a timeout), device (data, also from the network), interrupt (one of them), outside (a process outside the trace), unknown';
COMMENT ON COLUMN waits_on_peer.peer_process_id IS 'The traced process that ended it; NULL: see peer_kind';
COMMENT ON COLUMN waits_on_peer.peer_pid IS 'Its pid';
COMMENT ON COLUMN waits_on_peer.peer_name IS 'Its name';
COMMENT ON COLUMN waits_on_peer.time_ns IS 'How long';
COMMENT ON COLUMN waits_on_peer.count IS 'How often';
