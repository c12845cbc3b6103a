-- What bucket a piece of a thread's time is in; n has its state, wait and layer.
--   running            the layer of the innermost known call; outside of one, and for the spinning
--                      inside the backend, the layers that samples found there; else running
--   runnable           runnable
--   sleeping, blocked  gil_wait, gpu_wait, io_wait if the wait is known; an unknown wait that cannot be
--                      interrupted is io_wait, any other is sleeping
--   not measured       the wait or else the layer if known, else unknown
CASE
  WHEN n.state = 'running' THEN coalesce(n.layer::VARCHAR, 'running')
  WHEN n.state = 'runnable' THEN 'runnable'
  WHEN n.state = 'lost' THEN 'lost'
  WHEN n.wait = 'gil' THEN 'gil_wait'
  WHEN n.wait = 'gpu' THEN 'gpu_wait'
  WHEN n.wait IN ('io', 'pipe', 'socket', 'poll') THEN 'io_wait'
  WHEN n.wait IS NOT NULL THEN 'sleeping'
  WHEN n.state = 'blocked' THEN 'io_wait'
  WHEN n.state = 'sleeping' THEN 'sleeping'
  ELSE coalesce(n.layer::VARCHAR, 'unknown')
END
