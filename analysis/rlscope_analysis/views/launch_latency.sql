-- How long launches took to begin. Of a call that caused several activities, as that of a graph, the
-- first one tells: the others wait for each other.
CREATE OR REPLACE VIEW launch_latency AS
WITH first AS (
  -- In a window: what had begun before it is no launch of the window, whatever follows inside.
  SELECT
    l.process_id, l.correlation_id, l.operation, l.call_name,
    min(l.latency_ns) AS latency_ns, min(l.queue_ns) AS queue_ns
  FROM launch AS l
  JOIN _first_activity AS f ON f.process_id = l.process_id AND f.correlation_id = l.correlation_id
  WHERE l.kind <> 'sync' AND l.thread_id IS NOT NULL
  GROUP BY l.process_id, l.correlation_id, l.operation, l.call_name
  HAVING min(l.start_ns) = min(f.start_ns)
)
SELECT
  process_id, operation, call_name,
  count(*) AS calls,
  avg(latency_ns) AS mean_latency_ns,
  quantile_disc(latency_ns, 0.5) AS p50_latency_ns,
  quantile_disc(latency_ns, 0.99) AS p99_latency_ns,
  max(latency_ns) AS max_latency_ns,
  avg(queue_ns) AS mean_queue_ns,
  quantile_disc(queue_ns, 0.5) AS p50_queue_ns,
  quantile_disc(queue_ns, 0.99) AS p99_queue_ns,
  count(*) FILTER (WHERE queue_ns < 0) / count(*) AS before_return_share,
  count(*) FILTER (WHERE latency_ns < 0) AS before_call
FROM first
GROUP BY process_id, operation, call_name;
COMMENT ON VIEW launch_latency IS 'How long the GPU took to begin what a call asked for, by process, operation and function. Calls whose GPU activity is not in the trace, and activities whose call is not, are left out';
COMMENT ON COLUMN launch_latency.process_id IS 'The process';
COMMENT ON COLUMN launch_latency.operation IS 'Innermost operation of the calling thread when it called; (unannotated): none was open';
COMMENT ON COLUMN launch_latency.call_name IS 'The function that was called';
COMMENT ON COLUMN launch_latency.calls IS 'How many calls; of one with several activities the first to begin tells';
COMMENT ON COLUMN launch_latency.mean_latency_ns IS 'From the call to the start on the GPU: the mean';
COMMENT ON COLUMN launch_latency.p50_latency_ns IS 'Half of the latencies were at most this long';
COMMENT ON COLUMN launch_latency.p99_latency_ns IS '99 of 100 were at most this long';
COMMENT ON COLUMN launch_latency.max_latency_ns IS 'The longest one';
COMMENT ON COLUMN launch_latency.mean_queue_ns IS 'From the return of the call to the start on the GPU, negative where the GPU began before: the mean';
COMMENT ON COLUMN launch_latency.p50_queue_ns IS 'Half of these times were at most this long';
COMMENT ON COLUMN launch_latency.p99_queue_ns IS '99 of 100 were at most this long';
COMMENT ON COLUMN launch_latency.before_return_share IS 'Part of the calls of which the GPU began before they returned';
COMMENT ON COLUMN launch_latency.before_call IS 'Calls of which the GPU seems to have begun before they were made: above 0, the clocks of the two disagree';
