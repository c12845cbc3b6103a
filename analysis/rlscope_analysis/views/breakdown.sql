-- The conservation law: at every instant every thread is in exactly one bucket.
-- How a bucket is made of the state, and of the layer or the wait where they are known:
-- bucket_rule.sql.
CREATE OR REPLACE VIEW _bucket_part AS
WITH part AS (
  SELECT
    o.thread_id, o.path_id, o.state, o.wait, o.gpu,
    CASE WHEN e.thread_id IS NULL THEN o.layer ELSE e.layer END AS layer,
    coalesce(e.time_ns, o.time_ns) AS time_ns,
    CASE WHEN e.thread_id IS NULL THEN o.count END AS count,
    e.stderr_ns, e.method
  FROM thread_overlap_coded AS o
  LEFT JOIN layer_estimate_coded AS e
    ON o.state = 'running' AND e.thread_id = o.thread_id AND e.path_id = o.path_id
      AND e.call_layer IS NOT DISTINCT FROM o.layer AND e.gpu IS NOT DISTINCT FROM o.gpu
)
SELECT
  t.process_id, n.thread_id, n.path_id,
  CASE WHEN n.path_id = 0 THEN '(unannotated)' ELSE p.name END AS operation,
  /* bucket_rule */ AS bucket,
  CASE
    WHEN bucket IN ('lost', 'unknown') THEN NULL
    ELSE bucket NOT IN ('runnable', 'gil_wait', 'gpu_wait', 'io_wait', 'sleeping')
  END AS on_cpu,
  n.gpu AS gpu_busy, n.time_ns, n.count,
  CASE WHEN n.method IS NOT NULL THEN n.time_ns ELSE 0 END AS sampled_ns,
  CASE WHEN n.method = 'own' THEN pow(n.stderr_ns, 2) ELSE 0 END AS own_variance,
  CASE WHEN n.method <> 'own' THEN n.stderr_ns ELSE 0 END AS borrowed_stderr_ns
FROM part AS n
LEFT JOIN thread AS t ON t.thread_id = n.thread_id
LEFT JOIN operation_path AS p ON p.path_id = n.path_id;
COMMENT ON VIEW _bucket_part IS 'Private: may change without notice. thread_overlap_coded with its running time split by layer_estimate_coded, in buckets';
COMMENT ON COLUMN _bucket_part.process_id IS 'The process of the thread';
COMMENT ON COLUMN _bucket_part.thread_id IS 'The thread';
COMMENT ON COLUMN _bucket_part.path_id IS 'The stack of open operations: operation_path; 0: none';
COMMENT ON COLUMN _bucket_part.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN _bucket_part.bucket IS 'As in breakdown';
COMMENT ON COLUMN _bucket_part.on_cpu IS 'As in breakdown';
COMMENT ON COLUMN _bucket_part.gpu_busy IS 'As in breakdown';
COMMENT ON COLUMN _bucket_part.time_ns IS 'How long';
COMMENT ON COLUMN _bucket_part.count IS 'In how many intervals; NULL: sampled';
COMMENT ON COLUMN _bucket_part.sampled_ns IS 'Part of time_ns that samples tell of: all of it or nothing';
COMMENT ON COLUMN _bucket_part.own_variance IS 'Square of the standard error, where it is independent of that of other rows';
COMMENT ON COLUMN _bucket_part.borrowed_stderr_ns IS 'Standard error, where the samples are those of other rows: errors add up then';

CREATE OR REPLACE VIEW breakdown AS
SELECT
  process_id, thread_id, operation, bucket, on_cpu, gpu_busy,
  sum(time_ns)::BIGINT AS time_ns,
  CASE WHEN sum(sampled_ns) = 0 THEN sum(count)::BIGINT END AS count,
  sum(sampled_ns)::BIGINT AS sampled_ns,
  round(sqrt(sum(own_variance) + pow(sum(borrowed_stderr_ns), 2)))::BIGINT AS stderr_ns
FROM _bucket_part
GROUP BY process_id, thread_id, operation, bucket, on_cpu, gpu_busy
HAVING sum(time_ns) > 0;
COMMENT ON VIEW breakdown IS 'Where the time went: process x thread x operation x bucket x GPU busy. The rows of a thread add up to its lifetime, to the nanosecond';
COMMENT ON COLUMN breakdown.process_id IS 'The process of the thread';
COMMENT ON COLUMN breakdown.thread_id IS 'The thread';
COMMENT ON COLUMN breakdown.operation IS 'The innermost open operation; (unannotated): none was open';
COMMENT ON COLUMN breakdown.bucket IS 'On a CPU: python, simulator, backend, cuda_api, spin (a loop that waits on the CPU), other (native code of no layer), or running (layer not measured); runnable: it waited for a CPU; off the CPU: gil_wait, gpu_wait, io_wait, sleeping; lost: its records were; unknown: its state was not measured';
COMMENT ON COLUMN breakdown.on_cpu IS 'Whether that is time on a CPU; where states were not measured, being inside a known call that does not wait is taken for it; NULL: lost or unknown';
COMMENT ON COLUMN breakdown.gpu_busy IS 'Whether a GPU worked for the process at that time; NULL: not measured';
COMMENT ON COLUMN breakdown.time_ns IS 'How long';
COMMENT ON COLUMN breakdown.count IS 'In how many intervals of one stack of operations, state, layer and wait; NULL: not known of what samples tell';
COMMENT ON COLUMN breakdown.sampled_ns IS 'Part of time_ns that was given to this bucket by samples; 0: all of it was measured exactly';
COMMENT ON COLUMN breakdown.stderr_ns IS 'Standard error of time_ns; 0: it is exact';

CREATE OR REPLACE VIEW thread_bucket AS
WITH summed AS (
  SELECT
    process_id, thread_id, bucket,
    sum(time_ns)::BIGINT AS time_ns,
    sum(sampled_ns)::BIGINT AS sampled_ns,
    round(sqrt(sum(own_variance) + pow(sum(borrowed_stderr_ns), 2)))::BIGINT AS stderr_ns
  FROM _bucket_part
  GROUP BY process_id, thread_id, bucket
  HAVING sum(time_ns) > 0
)
SELECT
  b.process_id, b.thread_id, b.bucket, b.time_ns,
  t.end_ns - t.start_ns AS lifetime_ns,
  b.time_ns / nullif(t.end_ns - t.start_ns, 0) AS share,
  b.sampled_ns, b.stderr_ns
FROM summed AS b JOIN thread AS t ON t.thread_id = b.thread_id;
COMMENT ON VIEW thread_bucket IS 'The buckets of each thread: they add up to its lifetime, to the nanosecond';
COMMENT ON COLUMN thread_bucket.process_id IS 'The process of the thread';
COMMENT ON COLUMN thread_bucket.thread_id IS 'The thread';
COMMENT ON COLUMN thread_bucket.bucket IS 'As in breakdown';
COMMENT ON COLUMN thread_bucket.time_ns IS 'How long the thread was in it';
COMMENT ON COLUMN thread_bucket.lifetime_ns IS 'How long the thread was traced';
COMMENT ON COLUMN thread_bucket.share IS 'time_ns / lifetime_ns';
COMMENT ON COLUMN thread_bucket.sampled_ns IS 'As in breakdown';
COMMENT ON COLUMN thread_bucket.stderr_ns IS 'As in breakdown';
