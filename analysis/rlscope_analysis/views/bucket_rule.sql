-- What bucket a piece of a thread's time is in; n has its state, wait, and the layer as bucket.
--   running            the layer of the innermost known call; outside of one, and for the spinning
--                      inside the backend, the layers that samples found there; else running
--   runnable           runnable
--   sleeping, blocked  gil_wait, gpu_wait, io_wait if the wait is known; an unknown wait that cannot be
--                      interrupted is io_wait, any other is sleeping
--   not measured       the wait or else the layer if known, else unknown
CASE
  WHEN n.state = 0 THEN coalesce(n.layer_bucket, 'running')
  WHEN n.state = 1 THEN 'runnable'
  WHEN n.state = 4 THEN 'lost'
  WHEN n.wait = 1 THEN 'gil_wait'
  WHEN n.wait = 2 THEN 'gpu_wait'
  WHEN n.wait IN (3, 5, 6, 8) THEN 'io_wait'
  WHEN n.wait <> 0 THEN 'sleeping'
  WHEN n.state = 3 THEN 'io_wait'
  WHEN n.state = 2 THEN 'sleeping'
  ELSE coalesce(n.layer_bucket, 'unknown')
END
