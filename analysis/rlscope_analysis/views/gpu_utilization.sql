-- What nvidia-smi says of each GPU beside what it did: utilization is the share of a period in which
-- any kernel of any program ran, read by NVML; the truth is the union of all recorded activities.
-- A GPU of a program is one of NVML if their uuids agree, or if there is one of each on the machine.
CREATE OR REPLACE VIEW _gpu_of_program AS
WITH read AS (
  SELECT DISTINCT host, uuid, device_id, lower(replace(regexp_replace(uuid, '^(GPU|MIG)-', ''), '-', '')) AS id
  FROM counter
), used AS (
  SELECT DISTINCT host, device_id FROM _gpu_work
), described AS (
  SELECT
    host, device_id, min(name) AS name, count(DISTINCT uuid) AS uuids,
    min(lower(replace(regexp_replace(uuid, '^(GPU|MIG)-', ''), '-', ''))) AS id
  FROM gpu_device
  GROUP BY host, device_id
), alone AS (
  SELECT host, min(uuid) AS uuid FROM read GROUP BY host HAVING count(*) = 1
), alone_used AS (
  SELECT host FROM used GROUP BY host HAVING count(*) = 1
)
SELECT
  u.host, u.device_id, d.name,
  -- Processes that count differently leave open which GPU a number is.
  CASE
    WHEN d.uuids = 1 THEN r.uuid
    WHEN coalesce(d.uuids, 0) = 0 AND o.host IS NOT NULL THEN a.uuid
  END AS uuid
FROM used AS u
LEFT JOIN described AS d ON d.host IS NOT DISTINCT FROM u.host AND d.device_id = u.device_id
LEFT JOIN read AS r ON r.host IS NOT DISTINCT FROM u.host AND r.id = d.id
LEFT JOIN alone AS a ON a.host = u.host
LEFT JOIN alone_used AS o ON o.host = u.host;
COMMENT ON VIEW _gpu_of_program IS 'Private: may change without notice. Which GPU of NVML each GPU is that programs used';
COMMENT ON COLUMN _gpu_of_program.host IS 'The machine';
COMMENT ON COLUMN _gpu_of_program.device_id IS 'As the program counts';
COMMENT ON COLUMN _gpu_of_program.name IS 'Model';
COMMENT ON COLUMN _gpu_of_program.uuid IS 'The GPU in counter; NULL: not known';

-- On which machines programs used GPUs unseen: any GPU there may have worked more than the trace tells.
CREATE OR REPLACE VIEW _unseen_gpu AS
SELECT DISTINCT p.host
FROM _measured AS m JOIN process AS p ON p.process_id = m.process_id
WHERE
  m.kind = 'gpu_activity' AND NOT m.measured
  AND (
    p.process_id IN (SELECT process_id FROM gpu_status)
    OR p.process_id IN (SELECT t.process_id FROM thread AS t WHERE t.thread_id IN (SELECT thread_id FROM cuda_call_coded))
  );
COMMENT ON VIEW _unseen_gpu IS 'Private: may change without notice. Machines where a traced program used CUDA and its GPU activity was not measured';
COMMENT ON COLUMN _unseen_gpu.host IS 'The machine';

CREATE OR REPLACE VIEW gpu_utilization AS
WITH reading AS (
  SELECT
    host, uuid, ts_ns, value,
    lag(ts_ns) OVER (PARTITION BY host, uuid ORDER BY ts_ns) AS before_ns
  FROM counter
  WHERE name = 'utilization_gpu'
), read AS (
  SELECT host, uuid, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM reading GROUP BY host, uuid
  -- One alone tells of a period whose start nobody knows.
  HAVING max(ts_ns) > min(ts_ns)
), work AS (
  SELECT
    w.host, g.uuid, CASE WHEN g.uuid IS NULL THEN w.device_id END AS program_device_id,
    w.kind, w.start_ns, w.end_ns
  FROM _gpu_work AS w
  JOIN _gpu_of_program AS g ON g.host IS NOT DISTINCT FROM w.host AND g.device_id = w.device_id
), worked AS (
  SELECT host, uuid, program_device_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns
  FROM work
  GROUP BY host, uuid, program_device_id
), life AS (
  SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns
  FROM (SELECT start_ns, end_ns FROM process UNION ALL SELECT start_ns, end_ns FROM thread)
), late AS (
  -- Before, what one of the programs did was not recorded.
  SELECT p.host, max(l.from_ns) AS from_ns
  FROM _late_gpu AS l
  JOIN _measured AS m ON m.process_id = l.process_id AND m.kind = 'gpu_activity' AND m.measured
  JOIN process AS p ON p.process_id = l.process_id
  GROUP BY p.host
), device AS (
  SELECT DISTINCT host, uuid, device_id, NULL::INTEGER AS program_device_id FROM counter
  UNION ALL
  SELECT host, NULL, program_device_id, program_device_id FROM worked WHERE uuid IS NULL
), described AS (
  SELECT host, uuid, min(name) AS name FROM _gpu_of_program WHERE uuid IS NOT NULL GROUP BY host, uuid
), known AS (
  SELECT
    d.host, d.uuid, d.device_id, d.program_device_id,
    r.first_ns AS read_first_ns, r.last_ns AS read_last_ns,
    w.first_ns AS work_first_ns, w.last_ns AS work_last_ns,
    -- No activity is a zero only where activities were measured and each is known to be elsewhere.
    w.first_ns IS NOT NULL OR (
      EXISTS (SELECT 1 FROM _measured WHERE kind = 'gpu_activity' AND measured)
      AND NOT EXISTS (SELECT 1 FROM _gpu_of_program AS g WHERE g.uuid IS NULL AND g.host IS NOT DISTINCT FROM d.host)
      AND NOT EXISTS (SELECT 1 FROM _unseen_gpu AS u WHERE u.host IS NOT DISTINCT FROM d.host)
    ) AS is_known
  FROM device AS d
  LEFT JOIN read AS r ON r.host IS NOT DISTINCT FROM d.host AND r.uuid = d.uuid
  LEFT JOIN worked AS w
    ON w.host IS NOT DISTINCT FROM d.host AND w.uuid IS NOT DISTINCT FROM d.uuid
      AND w.program_device_id IS NOT DISTINCT FROM d.program_device_id
), whole AS (
  SELECT
    k.host, k.uuid, k.device_id, k.program_device_id, k.is_known, 'trace' AS scope,
    coalesce(k.read_first_ns, l.first_ns) AS start_ns, coalesce(k.read_last_ns, l.last_ns) AS end_ns
  FROM known AS k CROSS JOIN life AS l
  UNION ALL
  SELECT
    host, uuid, device_id, program_device_id, is_known, 'work',
    greatest(work_first_ns, read_first_ns), least(work_last_ns, read_last_ns)
  FROM known
  WHERE work_first_ns IS NOT NULL
), period AS (
  SELECT
    w.host, w.uuid, w.device_id, w.program_device_id, w.is_known, w.scope,
    greatest(w.start_ns, l.from_ns) AS start_ns, w.end_ns
  FROM whole AS w LEFT JOIN late AS l ON l.host IS NOT DISTINCT FROM w.host
  WHERE w.end_ns > greatest(w.start_ns, l.from_ns)
), readings AS (
  SELECT
    s.scope, s.host, s.uuid, count(*) AS readings,
    sum(r.value * (least(r.ts_ns, s.end_ns) - greatest(r.before_ns, s.start_ns))) / sum(least(r.ts_ns, s.end_ns) - greatest(r.before_ns, s.start_ns)) / 100 AS utilization_share,
    count(*) FILTER (WHERE r.value >= 100) / count(*) AS full_share
  FROM period AS s
  JOIN reading AS r
    ON r.host IS NOT DISTINCT FROM s.host AND r.uuid = s.uuid
      AND r.ts_ns > s.start_ns AND r.before_ns < s.end_ns
  GROUP BY s.scope, s.host, s.uuid
), activity AS (
  SELECT
    s.scope, s.host, s.uuid, s.program_device_id, (c.sm_activity / 100) AS sm_activity_share
  FROM period AS s
  JOIN LATERAL (
    SELECT avg(value) AS sm_activity FROM counter AS c
    WHERE c.name = 'sm_activity' AND c.host IS NOT DISTINCT FROM s.host AND c.uuid = s.uuid
      AND c.ts_ns > s.start_ns AND c.ts_ns <= s.end_ns
  ) AS c ON TRUE
), inside AS (
  SELECT
    s.scope, s.host, s.uuid, s.program_device_id, w.kind IN ('kernel', 'graph') AS is_kernel,
    greatest(w.start_ns, s.start_ns) AS start_ns, least(w.end_ns, s.end_ns) AS end_ns
  FROM period AS s
  JOIN work AS w
    ON w.host IS NOT DISTINCT FROM s.host AND w.uuid IS NOT DISTINCT FROM s.uuid
      AND w.program_device_id IS NOT DISTINCT FROM s.program_device_id
      AND w.start_ns < s.end_ns AND w.end_ns > s.start_ns
), seen AS (
  SELECT
    scope, host, uuid, program_device_id, is_kernel, start_ns, end_ns,
    max(end_ns) OVER (PARTITION BY scope, host, uuid, program_device_id ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns,
    max(end_ns) OVER (PARTITION BY scope, host, uuid, program_device_id, is_kernel ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS kind_before_ns
  FROM inside
), summed AS (
  SELECT
    scope, host, uuid, program_device_id,
    sum(end_ns - start_ns)::BIGINT AS sum_ns,
    sum(greatest(end_ns - greatest(start_ns, coalesce(before_ns, start_ns)), 0))::BIGINT AS busy_ns,
    coalesce(sum(greatest(end_ns - greatest(start_ns, coalesce(kind_before_ns, start_ns)), 0)) FILTER (WHERE is_kernel), 0)::BIGINT AS kernel_ns
  FROM seen
  GROUP BY scope, host, uuid, program_device_id
)
SELECT
  s.scope, s.host, s.uuid, s.device_id, coalesce(n.name, g.name) AS name,
  s.start_ns, s.end_ns, s.end_ns - s.start_ns AS span_ns,
  coalesce(r.readings, 0) AS readings, r.utilization_share, r.full_share, a.sm_activity_share,
  CASE WHEN s.is_known THEN coalesce(b.busy_ns, 0) END AS busy_ns,
  CASE WHEN s.is_known THEN coalesce(b.busy_ns, 0) END / (s.end_ns - s.start_ns) AS busy_share,
  CASE WHEN s.is_known THEN coalesce(b.kernel_ns, 0) END AS kernel_ns,
  CASE WHEN s.is_known THEN coalesce(b.kernel_ns, 0) END / (s.end_ns - s.start_ns) AS kernel_share,
  CASE WHEN s.is_known THEN coalesce(b.sum_ns, 0) END AS sum_ns,
  b.sum_ns / nullif(b.busy_ns, 0) AS concurrency
FROM period AS s
LEFT JOIN readings AS r ON r.scope = s.scope AND r.host IS NOT DISTINCT FROM s.host AND r.uuid = s.uuid
LEFT JOIN activity AS a ON a.scope = s.scope AND a.host IS NOT DISTINCT FROM s.host AND a.uuid = s.uuid
LEFT JOIN summed AS b
  ON b.scope = s.scope AND b.host IS NOT DISTINCT FROM s.host AND b.uuid IS NOT DISTINCT FROM s.uuid
    AND b.program_device_id IS NOT DISTINCT FROM s.program_device_id
LEFT JOIN described AS n ON n.host IS NOT DISTINCT FROM s.host AND n.uuid = s.uuid
LEFT JOIN _gpu_of_program AS g
  ON s.uuid IS NULL AND g.host IS NOT DISTINCT FROM s.host AND g.device_id = s.program_device_id
WHERE s.end_ns > s.start_ns;
COMMENT ON VIEW gpu_utilization IS 'What nvidia-smi says of each GPU beside what the traced programs did on it, over the same interval. Choose one scope';
COMMENT ON COLUMN gpu_utilization.scope IS 'trace: from the first to the last reading of the utilization (without two of them: the whole trace); work: the part of that from the first to the last recorded activity on this GPU';
COMMENT ON COLUMN gpu_utilization.host IS 'The machine; NULL: not known';
COMMENT ON COLUMN gpu_utilization.uuid IS 'The GPU, or its MIG instance; NULL: nothing was read of it, or it is not known which one the program used';
COMMENT ON COLUMN gpu_utilization.device_id IS 'Its number in nvidia-smi; where uuid is NULL: as the program counts';
COMMENT ON COLUMN gpu_utilization.name IS 'Model; NULL: not known';
COMMENT ON COLUMN gpu_utilization.start_ns IS 'Start of the interval; none begins before the GPU activity of all measured programs was recorded';
COMMENT ON COLUMN gpu_utilization.end_ns IS 'Its end';
COMMENT ON COLUMN gpu_utilization.span_ns IS 'end_ns - start_ns';
COMMENT ON COLUMN gpu_utilization.readings IS 'Readings of the utilization whose period lies in the interval, wholly or in part';
COMMENT ON COLUMN gpu_utilization.utilization_share IS 'Their mean, as a part of 1, each with the length of its period: any kernel of any program of the machine ran; NULL: not measured';
COMMENT ON COLUMN gpu_utilization.full_share IS 'Part of the readings that say 100 percent; NULL: not measured';
COMMENT ON COLUMN gpu_utilization.sm_activity_share IS 'Mean share of its multiprocessors that worked, as a part of 1, by the hardware counters of the GPU; NULL: not measured';
COMMENT ON COLUMN gpu_utilization.busy_ns IS 'Union of the recorded activities in the interval, of the programs that were measured: see coverage; NULL: none of them did anything there and others may have, or it is not known on which GPU they ran';
COMMENT ON COLUMN gpu_utilization.busy_share IS 'busy_ns / span_ns';
COMMENT ON COLUMN gpu_utilization.kernel_ns IS 'Union of the kernels and graphs alone, the part that utilization speaks of';
COMMENT ON COLUMN gpu_utilization.kernel_share IS 'kernel_ns / span_ns';
COMMENT ON COLUMN gpu_utilization.sum_ns IS 'Sum of the activities: what overlaps counts twice';
COMMENT ON COLUMN gpu_utilization.concurrency IS 'sum_ns / busy_ns: how many were under way while any was; NULL: none was';
