-- The time of each limit by iteration, its share with an interval, and the findings. Of the catalogue it is
-- given each code with its place, and the least share of a finding.
CREATE TABLE _limit_held AS
SELECT
  iteration_id, process_id, code,
  sum(duration_ns)::BIGINT AS time_ns,
  sum(duration_ns) FILTER (WHERE cause IN ('running', 'not_measured')) AS worked_ns
FROM limit_piece
WHERE iteration_id IN (SELECT iteration_id FROM _steady_iteration)
GROUP BY iteration_id, process_id, code;

CREATE TABLE _limit_cause AS
WITH waited_for AS (
  SELECT process_id, sum(time_ns) AS time_ns FROM _limit_held
  WHERE code IN ('simulation_bound', 'worker_bound') GROUP BY process_id
), sibling AS (
  -- Who works in some of the iterations only, as one that is started anew in each, is not to be compared.
  SELECT q.process_id
  FROM process AS q CROSS JOIN _training_span AS w
  WHERE least(coalesce(q.end_ns, w.end_ns), w.end_ns) - greatest(coalesce(q.start_ns, w.start_ns), w.start_ns)
      >= 0.9 * (w.end_ns - w.start_ns)
    AND EXISTS (FROM waited_for) AND q.parent_process_id IN (
    SELECT p.parent_process_id FROM process AS p JOIN waited_for AS w ON w.process_id = p.process_id
  ) AND q.process_id NOT IN (SELECT process_id FROM iteration)
), ran AS (
  SELECT
    t.process_id,
    sum(least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns)) AS time_ns
  FROM thread_state_coded AS s
  JOIN (SELECT thread_id, process_id FROM thread WHERE process_id IN (FROM sibling)) AS t
    ON t.thread_id = s.thread_id
  JOIN _training_span AS w ON s.start_ns < w.end_ns AND s.end_ns > w.start_ns
  WHERE s.state = 'running'
  GROUP BY t.process_id
), slowest AS (
  SELECT arg_max(process_id, (time_ns, -process_id)) AS process_id FROM ran
), simulating AS (
  SELECT DISTINCT process_id FROM _limit_thread WHERE simulates AND process_id IN (SELECT process_id FROM ran)
), stage AS (
  -- Who mostly waits for the slowest worker itself works with it, as the stage of a pipeline before it,
  -- and not beside it. Where both simulate they meet at a barrier.
  SELECT s.process_id
  FROM (
    SELECT t.process_id, s.next_waker_thread_id, s.end_ns - s.start_ns AS time_ns
    FROM _state_step AS s JOIN thread AS t ON t.thread_id = s.thread_id
    WHERE s.state IN ('sleeping', 'blocked') AND s.next_waker_thread_id IS NOT NULL
      AND t.process_id IN (SELECT process_id FROM ran)
  ) AS s
  JOIN thread AS k ON k.thread_id = s.next_waker_thread_id AND k.process_id <> s.process_id
  GROUP BY s.process_id
  HAVING sum(s.time_ns) FILTER (WHERE k.process_id = (SELECT process_id FROM slowest)) > 0.5 * sum(s.time_ns)
    AND NOT (
      s.process_id IN (SELECT process_id FROM simulating)
      AND (SELECT process_id FROM slowest) IN (SELECT process_id FROM simulating)
    )
), crew AS (
  -- Helpers that hardly run, as the resource tracker of multiprocessing, are no workers; beside one that
  -- simulates neither are those that do not, as the raylet and idle workers of Ray.
  SELECT
    process_id, time_ns,
    count(*) OVER () AS workers, sum(time_ns) OVER () AS all_ns, max(time_ns) OVER () AS most_ns
  FROM ran
  WHERE process_id NOT IN (SELECT process_id FROM stage) AND (
    process_id IN (SELECT process_id FROM simulating)
    OR NOT EXISTS (FROM simulating JOIN slowest ON slowest.process_id = simulating.process_id)
  )
  QUALIFY time_ns >= 0.01 * max(time_ns) OVER ()
), ran_in AS (
  SELECT i.iteration_id, c.process_id, sum(s.end_ns - s.start_ns) AS time_ns
  FROM (
    SELECT t.process_id, s.start_ns, s.end_ns
    FROM thread_state_coded AS s JOIN thread AS t ON t.thread_id = s.thread_id
    WHERE s.state = 'running'
  ) AS s
  JOIN crew AS c ON c.process_id = s.process_id AND c.workers > 1
  ASOF JOIN (
    FROM iteration WHERE iteration_id IN (SELECT iteration_id FROM _steady_iteration)
  ) AS i ON i.start_ns <= s.start_ns
  WHERE s.start_ns < i.end_ns
  GROUP BY i.iteration_id, c.process_id
), at_once AS (
  -- Of what could be done beside the worker with most work, the part that was: 0 where each waits for its turn,
  -- 1 where all begin at once, and less where in an iteration now one is the slowest and now another.
  SELECT
    (sum(r.all_ns) - sum(h.time_ns)) / nullif(sum(r.all_ns) - sum(r.most_ns), 0) AS share
  FROM (
    SELECT iteration_id, sum(time_ns) AS all_ns, max(time_ns) AS most_ns FROM ran_in GROUP BY iteration_id
  ) AS r
  JOIN (
    SELECT iteration_id, sum(time_ns) AS time_ns FROM _limit_held
    WHERE code IN ('simulation_bound', 'worker_bound') GROUP BY iteration_id
  ) AS h ON h.iteration_id = r.iteration_id
), split AS (
  -- Of the path in a worker that has more work than the others have on average: the part that would be over if all
  -- had as much. Else, the part that would be over if all worked all the time, as far as there are CPUs: they wait
  -- for their turn, or for the slowest of the moment.
  SELECT
    c.process_id,
    CASE
      WHEN o.straggled >= 0.25 THEN o.uneven
      WHEN o.idled >= 0.25 AND coalesce(a.share, 1) >= 0.25 THEN o.idled
      ELSE 0
    END AS straggled,
    CASE
      WHEN o.straggled < 0.25 AND o.idled >= 0.25 AND a.share < 0.25 THEN o.idled
      ELSE 0
    END AS idled
  FROM crew AS c
  CROSS JOIN (
    SELECT sum(time_ns) AS time_ns FROM waited_for WHERE process_id IN (SELECT process_id FROM crew)
  ) AS path
  CROSS JOIN at_once AS a
  CROSS JOIN LATERAL (
    SELECT
      1 - (c.all_ns - c.time_ns) / (c.workers - 1) / nullif(c.time_ns, 0) AS straggled,
      1 - c.all_ns / c.workers / nullif(c.time_ns, 0) AS uneven,
      1 - greatest(c.most_ns, c.all_ns / coalesce({allowed_cpus}, c.workers))
        / nullif(path.time_ns, 0) AS idled
  ) AS o
  WHERE c.workers > 1
), turn AS (
  -- Without waiting for each result the CPU and the GPU work at once: that is worth the shorter of the two.
  -- What the CPU takes longer, it takes to launch.
  SELECT
    iteration_id,
    1 - coalesce(sum(time_ns) FILTER (WHERE code IN ('gpu_bound', 'copy_bound')), 0)
      / nullif(sum(worked_ns) FILTER (WHERE code = 'sync_in_step'), 0) AS launched
  FROM _limit_held GROUP BY iteration_id
), clock AS (
  SELECT
    r.uuid, r.ts_ns, r.value::BIGINT AS reasons, k.value AS mhz,
    max(k.value) OVER (PARTITION BY r.host, r.uuid) AS highest_mhz,
    (SELECT max(value) FROM counter AS m WHERE m.name = 'sm_clock_max' AND m.uuid = r.uuid) AS most_mhz
  FROM (FROM counter WHERE name = 'throttle_reasons') AS r
  ASOF JOIN (FROM counter WHERE name = 'sm_clock') AS k
    ON k.host IS NOT DISTINCT FROM r.host AND k.uuid = r.uuid AND k.ts_ns <= r.ts_ns
  WHERE r.uuid IN (SELECT uuid FROM _gpu_of_program)
), slow AS (
  -- By which part the clock of the GPUs was lower than it can be, while power or heat held it down (bits of
  -- NVML: power cap, hardware, software thermal, hardware thermal, power brake).
  SELECT
    ts_ns, CASE WHEN reasons & 236 <> 0 THEN greatest(0, 1 - mhz / greatest(most_mhz, highest_mhz)) ELSE 0 END AS part
  FROM clock
), slowed AS (
  -- Where no reading fell into an iteration, the last one before its end.
  SELECT i.iteration_id, coalesce(any_value(w.part), any_value(b.part), 0) AS part
  FROM _steady_iteration AS s
  JOIN iteration AS i ON i.iteration_id = s.iteration_id
  LEFT JOIN (
    SELECT j.iteration_id, avg(r.part) AS part
    FROM slow AS r ASOF JOIN iteration AS j ON j.start_ns <= r.ts_ns
    WHERE r.ts_ns < j.end_ns GROUP BY ALL
  ) AS w ON w.iteration_id = i.iteration_id
  ASOF LEFT JOIN slow AS b ON b.ts_ns <= i.end_ns
  GROUP BY i.iteration_id
), parted AS (
  SELECT
    h.iteration_id, h.code, h.process_id, h.time_ns,
    CASE
      WHEN h.code = 'sync_in_step' THEN (coalesce(h.worked_ns, 0) * greatest(coalesce(t.launched, 0), 0))::BIGINT
      ELSE 0
    END AS launched_ns,
    CASE WHEN h.code = 'gpu_bound' THEN (h.time_ns * coalesce(d.part, 0))::BIGINT ELSE 0 END AS throttled_ns,
    (h.time_ns * coalesce(s.straggled, 0))::BIGINT AS straggled_ns,
    (h.time_ns * coalesce(s.idled, 0))::BIGINT AS idled_ns
  FROM _limit_held AS h
  JOIN turn AS t ON t.iteration_id = h.iteration_id
  LEFT JOIN slowed AS d ON d.iteration_id = h.iteration_id
  LEFT JOIN split AS s
    ON s.process_id = h.process_id AND h.code IN ('simulation_bound', 'worker_bound')
)
SELECT iteration_id, code, process_id, time_ns - straggled_ns - idled_ns - launched_ns - throttled_ns AS time_ns
FROM parted
UNION ALL SELECT iteration_id, 'gpu_throttled', process_id, throttled_ns FROM parted WHERE throttled_ns > 0
UNION ALL SELECT iteration_id, 'launch_bound', process_id, launched_ns FROM parted WHERE launched_ns > 0
UNION ALL SELECT iteration_id, 'straggler', process_id, straggled_ns FROM parted WHERE straggled_ns > 0
UNION ALL SELECT iteration_id, 'idle_workers', process_id, idled_ns FROM parted WHERE idled_ns > 0;

CREATE TABLE limit_time AS
WITH moved AS (
  SELECT
    c.iteration_id, c.code, c.process_id, c.time_ns,
    -- Of what stragglers take no more is left.
    least(coalesce(f.time_ns, 0), c.time_ns) AS moved_ns
  FROM _limit_cause AS c
  LEFT JOIN limit_function AS f
    ON f.iteration_id = c.iteration_id AND f.code = c.code AND f.process_id IS NOT DISTINCT FROM c.process_id
)
SELECT iteration_id, code, process_id, time_ns - moved_ns AS time_ns FROM moved
UNION ALL
SELECT iteration_id, 'one_function', process_id, sum(moved_ns)::BIGINT
FROM moved WHERE moved_ns > 0 GROUP BY iteration_id, process_id;
COMMENT ON TABLE limit_time IS 'How long each limit held up each iteration: they add up to its duration. Without the first iteration, where there are three or more';
COMMENT ON COLUMN limit_time.iteration_id IS 'The iteration';
COMMENT ON COLUMN limit_time.code IS 'The limit: docs/findings.md explains each';
COMMENT ON COLUMN limit_time.process_id IS 'The process that the path is in; NULL: it is on a GPU';
COMMENT ON COLUMN limit_time.time_ns IS 'For how long';

CREATE VIEW _listed_limit AS SELECT * FROM (VALUES {limits}) AS l (code, place, least_share, least_of_life);
COMMENT ON VIEW _listed_limit IS 'Private: may change without notice. The catalogue of limits';

CREATE VIEW limit_share AS
WITH whole AS (
  SELECT sum(time_ns) AS time_ns, count(*) AS iterations FROM _steady_iteration
), held AS (
  SELECT iteration_id, code, sum(time_ns) AS time_ns FROM limit_time GROUP BY ALL
), mostly AS (
  SELECT code, arg_max(process_id, (time_ns, -process_id)) AS process_id
  FROM (SELECT code, process_id, sum(time_ns) AS time_ns FROM limit_time GROUP BY ALL)
  GROUP BY code
), total AS (
  SELECT code, sum(time_ns)::BIGINT AS time_ns FROM held GROUP BY code
), quantile AS (
  -- Of Student's t, for 95 %: by degrees of freedom, from 11 on by its expansion (good to 0.002).
  SELECT CASE
    WHEN iterations <= 11 THEN
      [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228][iterations - 1]
    ELSE 1.96 + 2.3722 / (iterations - 1) + 2.8225 / pow(iterations - 1, 2)
  END AS t
  FROM whole
), spread AS (
  -- How far the share of an iteration is from that of all: the error of a ratio.
  SELECT
    t.code, sqrt(sum(pow(coalesce(h.time_ns, 0) - t.time_ns / w.time_ns * s.time_ns, 2))
      * w.iterations / nullif(w.iterations - 1, 0)) / w.time_ns AS error
  FROM total AS t CROSS JOIN whole AS w CROSS JOIN _steady_iteration AS s
  LEFT JOIN held AS h ON h.code = t.code AND h.iteration_id = s.iteration_id
  GROUP BY t.code, w.iterations, w.time_ns
)
SELECT
  t.code, l.place, l.least_share, t.time_ns, t.time_ns / w.time_ns AS share,
  CASE WHEN e.error IS NOT NULL THEN greatest(0, t.time_ns / w.time_ns - q.t * e.error) END AS low_share,
  CASE WHEN e.error IS NOT NULL THEN least(1, t.time_ns / w.time_ns + q.t * e.error) END AS high_share,
  t.time_ns / w.iterations AS per_iteration_ns, m.process_id
FROM total AS t
CROSS JOIN whole AS w
CROSS JOIN quantile AS q
JOIN spread AS e ON e.code = t.code
JOIN _listed_limit AS l ON l.code = t.code
JOIN mostly AS m ON m.code = t.code;
COMMENT ON VIEW limit_share IS 'What part of the critical path each limit has, over all iterations but the first: the shares add up to 1';
COMMENT ON COLUMN limit_share.code IS 'The limit: docs/findings.md explains each';
COMMENT ON COLUMN limit_share.place IS 'Its place in the catalogue';
COMMENT ON COLUMN limit_share.least_share IS 'From which share on it is a finding; NULL: it is none';
COMMENT ON COLUMN limit_share.time_ns IS 'For how long it held the iterations up';
COMMENT ON COLUMN limit_share.share IS 'The same as a part of them: at most so much shorter they can get by it';
COMMENT ON COLUMN limit_share.low_share IS 'Lower end of the 95 % interval over many more iterations like these; NULL: there is one only';
COMMENT ON COLUMN limit_share.high_share IS 'Upper end of it';
COMMENT ON COLUMN limit_share.per_iteration_ns IS 'time_ns per iteration';
COMMENT ON COLUMN limit_share.process_id IS 'The process with most of it; NULL: a GPU';

CREATE VIEW finding AS
WITH own AS (
  -- What programs outside the trace left. Beside them the program has the same limits as without.
  SELECT 1 - coalesce(sum(share), 0) AS share FROM limit_share WHERE code = 'cpu_taken_by_others'
), led AS (
  SELECT p.process_id, p.start_ns, p.end_ns, min(i.start_ns) AS first_ns
  FROM iteration AS i JOIN process AS p ON p.process_id = i.process_id
  WHERE i.source <> 'whole'
  GROUP BY ALL HAVING bool_or(i.is_first)
), begun AS (
  -- Workers that ran longer before their first step than after it.
  SELECT p.process_id, any_value(p.start_ns) AS start_ns, any_value(p.first_ns) AS end_ns
  FROM (
    SELECT q.process_id, any_value(q.start_ns) AS start_ns, min(o.start_ns) AS first_ns
    FROM operation_coded AS o
    JOIN operation_path AS n ON n.path_id = o.path_id
    JOIN thread AS t ON t.thread_id = o.thread_id
    JOIN process AS q ON q.process_id = t.process_id
    WHERE n.name = 'simulation' AND q.parent_process_id IN (SELECT process_id FROM led)
    GROUP BY q.process_id
  ) AS p
  JOIN (
    SELECT t.process_id, s.start_ns, s.end_ns FROM thread_state_coded AS s
    JOIN thread AS t ON t.thread_id = s.thread_id WHERE s.state = 'running'
  ) AS r ON r.process_id = p.process_id
  GROUP BY p.process_id
  HAVING coalesce(sum(r.end_ns - r.start_ns) FILTER (WHERE r.end_ns <= p.first_ns), 0)
    > coalesce(sum(r.end_ns - r.start_ns) FILTER (WHERE r.end_ns > p.first_ns), 0)
), starting AS (
  SELECT
    l.process_id, l.end_ns - l.start_ns AS life_ns, l.first_ns - l.start_ns AS start_ns,
    coalesce((
      SELECT greatest(least(max(end_ns), l.first_ns) - greatest(min(start_ns), l.start_ns), 0)
      FROM begun HAVING count(*) > 0
    ), 0) AS workers_ns,
    (SELECT min(process_id) FROM begun) AS worker_process_id
  FROM led AS l
), other AS (
  SELECT 'start_up' AS code, start_ns - workers_ns AS time_ns, life_ns, process_id FROM starting
  UNION ALL
  SELECT 'worker_start_up', workers_ns, life_ns, worker_process_id FROM starting
)
SELECT
  f.code, f.share, f.low_share, f.high_share, f.time_ns, f.process_id, p.pid, p.name, f.of_path
FROM (
  SELECT code, place, share, low_share, high_share, time_ns, process_id, true AS of_path
  FROM limit_share
  WHERE share >= least_share * CASE WHEN code = 'cpu_taken_by_others' THEN 1 ELSE (SELECT share FROM own) END
    -- Of a small one that may be none at all there is no advice.
    AND (share >= 0.1 OR low_share IS DISTINCT FROM 0)
    -- First workers share the work evenly, then more of them help.
    AND NOT (code IN ('simulation_bound', 'worker_bound') AND EXISTS (
      FROM limit_share WHERE code IN ('straggler', 'idle_workers') AND share >= 0.1
    ))
    -- First the CPU and the GPU work at once, then a faster GPU helps.
    AND NOT (code = 'gpu_bound' AND EXISTS (
      FROM limit_share WHERE code = 'sync_in_step' AND share >= 0.25
    ))
  UNION ALL
  SELECT o.code, l.place, o.time_ns / o.life_ns, NULL, NULL, o.time_ns, o.process_id, false
  FROM other AS o JOIN _listed_limit AS l ON l.code = o.code
  -- Shorter starts are not worth advice.
  WHERE o.time_ns >= l.least_of_life * o.life_ns AND o.time_ns >= 2000000000
    -- What each iteration has to wait for says more.
    AND NOT EXISTS (FROM limit_share AS s WHERE s.code = o.code AND s.share >= l.least_share)
) AS f
LEFT JOIN process AS p ON p.process_id = f.process_id
ORDER BY f.share DESC, f.place;
COMMENT ON VIEW finding IS 'What limits the iterations and can be helped, the largest share first: docs/findings.md';
COMMENT ON COLUMN finding.code IS 'What it is: docs/findings.md explains each';
COMMENT ON COLUMN finding.share IS 'The most that can be gained, as a part of the iterations; where of_path is not: of the life of the leading process';
COMMENT ON COLUMN finding.low_share IS 'Lower end of the 95 % interval over many more iterations like these; NULL: not known';
COMMENT ON COLUMN finding.high_share IS 'Upper end of it';
COMMENT ON COLUMN finding.time_ns IS 'The same as time, in this trace';
COMMENT ON COLUMN finding.process_id IS 'The process with most of it; NULL: a GPU';
COMMENT ON COLUMN finding.pid IS 'Its process id as seen from where the recorder ran; NULL: not known';
COMMENT ON COLUMN finding.name IS 'Its name';
COMMENT ON COLUMN finding.of_path IS 'Whether it is a part of the critical path; false: of what comes before it';
