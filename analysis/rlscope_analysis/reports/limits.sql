-- What limits the iterations: every instant of them under one heading, with the interval in which the
-- share lies that many more such iterations would have.
SELECT
  l.code, l.time_ns, l.share, l.low_share, l.high_share, l.per_iteration_ns,
  p.name AS mostly_in, p.pid,
  {'code': l.code} AS what
FROM limit_share AS l
LEFT JOIN process AS p ON p.process_id = l.process_id
ORDER BY l.time_ns DESC, l.place
