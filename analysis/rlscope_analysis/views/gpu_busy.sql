-- When GPUs worked: the union of their activities. A sum of activities is not busy time, because
-- streams, copy engines and devices work at the same time, and so do kernels of one stream.
-- An activity begins a new interval if everything before it had ended.
CREATE OR REPLACE VIEW _gpu_work AS
SELECT a.process_id, a.device_id, a.stream_id, a.kind, a.start_ns, a.end_ns, p.host
FROM gpu_activity_coded AS a LEFT JOIN process AS p ON p.process_id = a.process_id
WHERE a.kind <> 'sync' AND a.end_ns >= a.start_ns;
COMMENT ON VIEW _gpu_work IS 'Private: may change without notice. Activities during which a GPU works';
COMMENT ON COLUMN _gpu_work.process_id IS 'The process that caused it';
COMMENT ON COLUMN _gpu_work.device_id IS 'The GPU';
COMMENT ON COLUMN _gpu_work.stream_id IS 'The stream';
COMMENT ON COLUMN _gpu_work.kind IS 'As in gpu_activity_coded';
COMMENT ON COLUMN _gpu_work.start_ns IS 'When the GPU began';
COMMENT ON COLUMN _gpu_work.end_ns IS 'When the GPU had finished';
COMMENT ON COLUMN _gpu_work.host IS 'The machine';

CREATE OR REPLACE VIEW _gpu_interval AS
WITH owned AS (
  SELECT process_id, NULL::VARCHAR AS host, start_ns, end_ns FROM _gpu_work WHERE end_ns > start_ns
  UNION ALL
  SELECT NULL, host, start_ns, end_ns FROM _gpu_work WHERE end_ns > start_ns
), seen AS (
  SELECT
    process_id, host, start_ns, end_ns,
    max(end_ns) OVER (PARTITION BY process_id, host ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
  FROM owned
), numbered AS (
  SELECT
    process_id, host, start_ns, end_ns,
    count(CASE WHEN before_ns IS NULL OR start_ns > before_ns THEN 1 END) OVER (PARTITION BY process_id, host ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING) AS run
  FROM seen
)
SELECT process_id, host, min(start_ns) AS start_ns, max(end_ns) AS end_ns, count(*) AS activities
FROM numbered
GROUP BY process_id, host, run;
COMMENT ON VIEW _gpu_interval IS 'Private: may change without notice. The rows of gpu_busy and of gpu_busy_machine';
COMMENT ON COLUMN _gpu_interval.process_id IS 'The process; NULL: all of a machine';
COMMENT ON COLUMN _gpu_interval.host IS 'The machine; NULL: not known, or the row is of a process';
COMMENT ON COLUMN _gpu_interval.start_ns IS 'When a GPU began to work';
COMMENT ON COLUMN _gpu_interval.end_ns IS 'When all GPUs had finished';
COMMENT ON COLUMN _gpu_interval.activities IS 'How many activities';

CREATE OR REPLACE VIEW gpu_busy AS
SELECT s.process_id, p.pid, s.start_ns, s.end_ns, s.end_ns - s.start_ns AS duration_ns, s.activities
FROM _gpu_interval AS s LEFT JOIN process AS p ON p.process_id = s.process_id
WHERE s.process_id IS NOT NULL;
COMMENT ON VIEW gpu_busy IS 'When a GPU worked for each process: intervals that neither overlap nor touch, over all its streams and devices';
COMMENT ON COLUMN gpu_busy.process_id IS 'The process';
COMMENT ON COLUMN gpu_busy.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN gpu_busy.start_ns IS 'When a GPU began to work';
COMMENT ON COLUMN gpu_busy.end_ns IS 'When all its GPUs had finished';
COMMENT ON COLUMN gpu_busy.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN gpu_busy.activities IS 'Kernels, copies (memcpy, memset) and graphs in it; without instant ones';

CREATE OR REPLACE VIEW gpu_busy_machine AS
SELECT host, start_ns, end_ns, end_ns - start_ns AS duration_ns, activities FROM _gpu_interval WHERE process_id IS NULL;
COMMENT ON VIEW gpu_busy_machine IS 'When any GPU of each machine worked for any traced process: intervals that neither overlap nor touch';
COMMENT ON COLUMN gpu_busy_machine.host IS 'The machine; NULL: not known';
COMMENT ON COLUMN gpu_busy_machine.start_ns IS 'When a GPU began to work';
COMMENT ON COLUMN gpu_busy_machine.end_ns IS 'When all of them had finished';
COMMENT ON COLUMN gpu_busy_machine.duration_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN gpu_busy_machine.activities IS 'Kernels, copies (memcpy, memset) and graphs in it; without instant ones';

CREATE OR REPLACE VIEW gpu_time AS
WITH scoped AS (
  SELECT 'trace' AS scope, NULL::INTEGER AS process_id, NULL::VARCHAR AS host, NULL::INTEGER AS device_id, NULL::BIGINT AS stream_id, NULL::GPU_ACTIVITY_KIND AS kind, start_ns, end_ns FROM _gpu_work
  UNION ALL
  SELECT 'machine', NULL, host, NULL, NULL, NULL, start_ns, end_ns FROM _gpu_work
  UNION ALL
  SELECT 'process', process_id, NULL, NULL, NULL, NULL, start_ns, end_ns FROM _gpu_work
  UNION ALL
  SELECT 'device', NULL, host, device_id, NULL, NULL, start_ns, end_ns FROM _gpu_work
  UNION ALL
  SELECT 'stream', process_id, host, device_id, stream_id, NULL, start_ns, end_ns FROM _gpu_work
  UNION ALL
  SELECT 'kind', NULL, NULL, NULL, NULL, kind, start_ns, end_ns FROM _gpu_work
), seen AS (
  SELECT
    scope, process_id, host, device_id, stream_id, kind, start_ns, end_ns,
    max(end_ns) OVER (PARTITION BY scope, process_id, host, device_id, stream_id, kind ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
  FROM scoped
), summed AS (
  SELECT
    scope, process_id, host, device_id, stream_id, kind,
    count(*) AS activities,
    sum(end_ns - start_ns)::BIGINT AS sum_ns,
    sum(greatest(end_ns - greatest(start_ns, coalesce(before_ns, start_ns)), 0))::BIGINT AS busy_ns,
    min(start_ns) AS first_ns,
    max(end_ns) AS last_ns
  FROM seen
  GROUP BY scope, process_id, host, device_id, stream_id, kind
)
SELECT
  scope, process_id, host, device_id, stream_id,
  kind::VARCHAR AS kind, activities, sum_ns, busy_ns, first_ns, last_ns,
  last_ns - first_ns AS span_ns,
  last_ns - first_ns - busy_ns AS idle_ns
FROM summed;
COMMENT ON VIEW gpu_time IS 'GPU time of the whole trace, of each machine, process, device, stream and kind of activity. Choose one scope: rows of different scopes tell of the same activities';
COMMENT ON COLUMN gpu_time.scope IS 'trace, machine, process, device, stream or kind: which of the keys below are set';
COMMENT ON COLUMN gpu_time.process_id IS 'The process, where scope is process or stream';
COMMENT ON COLUMN gpu_time.host IS 'The machine, where scope is machine, device or stream; NULL there: not known';
COMMENT ON COLUMN gpu_time.device_id IS 'The GPU, where scope is device or stream';
COMMENT ON COLUMN gpu_time.stream_id IS 'The stream, where scope is stream';
COMMENT ON COLUMN gpu_time.kind IS 'kernel, memcpy, memset or graph, where scope is kind';
COMMENT ON COLUMN gpu_time.activities IS 'How many activities';
COMMENT ON COLUMN gpu_time.sum_ns IS 'Sum of their durations: what overlaps counts twice';
COMMENT ON COLUMN gpu_time.busy_ns IS 'Their union: time during which at least one was under way';
COMMENT ON COLUMN gpu_time.first_ns IS 'Start of the first';
COMMENT ON COLUMN gpu_time.last_ns IS 'End of the last';
COMMENT ON COLUMN gpu_time.span_ns IS 'last_ns - first_ns';
COMMENT ON COLUMN gpu_time.idle_ns IS 'span_ns - busy_ns';

CREATE OR REPLACE VIEW gpu_kernel AS
SELECT
  a.process_id, a.device_id, s.value AS name,
  count(*) AS instances,
  sum(a.end_ns - a.start_ns)::BIGINT AS sum_ns,
  sum(a.end_ns - a.start_ns) / count(*) AS mean_ns,
  quantile_disc(a.end_ns - a.start_ns, 0.5) AS p50_ns,
  max(a.end_ns - a.start_ns) AS max_ns
FROM gpu_activity_coded AS a LEFT JOIN string AS s ON s.string_id = a.name_id
WHERE a.kind = 'kernel' AND a.end_ns >= a.start_ns
GROUP BY a.process_id, a.device_id, s.value;
COMMENT ON VIEW gpu_kernel IS 'Each kernel: how often it ran and for how long';
COMMENT ON COLUMN gpu_kernel.process_id IS 'The process that launched it';
COMMENT ON COLUMN gpu_kernel.device_id IS 'The GPU it ran on';
COMMENT ON COLUMN gpu_kernel.name IS 'Name of the kernel';
COMMENT ON COLUMN gpu_kernel.instances IS 'How often it ran';
COMMENT ON COLUMN gpu_kernel.sum_ns IS 'Sum of the durations; kernels may run at the same time';
COMMENT ON COLUMN gpu_kernel.mean_ns IS 'sum_ns / instances';
COMMENT ON COLUMN gpu_kernel.p50_ns IS 'Half of them took at most this long';
COMMENT ON COLUMN gpu_kernel.max_ns IS 'The longest one';
