-- For how long of each iteration any GPU worked.
SELECT
  i.iteration_id,
  sum(least(g.end_ns, i.end_ns) - greatest(g.start_ns, i.start_ns))::BIGINT AS time_ns
FROM gpu_busy_machine AS g JOIN iteration AS i ON g.start_ns < i.end_ns AND g.end_ns > i.start_ns
GROUP BY i.iteration_id
