-- The updates of the thread that learns most in each process: backpropagations with no acting between
-- them (updated). An iteration lasts from the end of one to the end of the next; the first from the
-- first phase on (spaced). A thread that does not act itself learns without a break: there a cycle of
-- what a framework calls its backpropagations is one (a critic's and an actor's), else each (cycle).
-- Where the thread steps environments itself (and does not only look at one), that is acting: a
-- forward pass alone may be one of an update, between the steps of two optimizers. Where it waits for
-- others that do, a forward pass is acting that is followed by something else than learning.
-- There is no FILTER in a window here: with it DuckDB takes time by the square of the rows.
WITH phase AS (
  SELECT
    t.process_id, o.thread_id, o.start_ns, o.end_ns, p.name,
    coalesce(p.framework_name, '') AS called
  FROM operation_coded AS o
  JOIN operation_path AS p ON p.path_id = o.path_id
  LEFT JOIN thread AS t ON t.thread_id = o.thread_id
  WHERE p.source = 'auto'
    AND p.name IN ('simulation', 'inference', 'rollout', 'wait', 'backpropagation')
), learner AS (
  SELECT
    process_id, arg_max(thread_id, (time_ns, -thread_id)) AS thread_id,
    max((time_ns, -thread_id)) AS most
  FROM (
    SELECT process_id, thread_id, sum(end_ns - start_ns) AS time_ns
    FROM phase WHERE name = 'backpropagation' GROUP BY ALL
  )
  GROUP BY process_id
), own AS (
  SELECT *, lead(name) OVER (PARTITION BY thread_id ORDER BY start_ns, end_ns DESC) AS next_name
  FROM phase WHERE thread_id IN (SELECT thread_id FROM learner)
), habit AS (
  SELECT
    thread_id,
    count(*) FILTER (WHERE name IN ('simulation', 'rollout'))
      > count(*) FILTER (WHERE name = 'inference') / 10 AS steps,
    bool_or(name = 'wait') AS waits
  FROM own GROUP BY thread_id
), acting AS (
  -- Waits, of which there may be very many, are only there to be followed by something.
  SELECT
    o.*,
    o.name IN ('simulation', 'rollout') OR (o.name = 'inference' AND NOT h.steps
      AND (NOT h.waits OR o.next_name IS DISTINCT FROM 'backpropagation')) AS is_acting
  FROM own AS o JOIN habit AS h ON h.thread_id = o.thread_id WHERE o.name <> 'wait'
), numbered AS (
  SELECT
    *, count(CASE WHEN is_acting THEN 1 END) OVER own AS acts,
    min(start_ns) OVER (PARTITION BY thread_id) AS first_ns
  FROM acting
  WINDOW own AS (PARTITION BY thread_id ORDER BY start_ns, end_ns DESC)
), updated AS (
  SELECT thread_id, acts, max(end_ns) AS end_ns, any_value(first_ns) AS first_ns
  FROM numbered WHERE name = 'backpropagation' GROUP BY thread_id, acts
), spaced AS (
  SELECT thread_id, lag(end_ns, 1, first_ns) OVER own AS start_ns, end_ns FROM updated
  WINDOW own AS (PARTITION BY thread_id ORDER BY end_ns)
  QUALIFY lag(end_ns, 1, first_ns) OVER own < end_ns
), most_frequent AS (
  SELECT thread_id, arg_max(called, (times, -first_ns)) AS called
  FROM (
    SELECT thread_id, called, count(*) AS times, min(start_ns) AS first_ns
    FROM numbered WHERE name = 'backpropagation' GROUP BY ALL
  )
  GROUP BY thread_id
), begun AS (
  SELECT n.*, count(CASE WHEN n.called = f.called THEN 1 END) OVER own AS number
  FROM numbered AS n JOIN most_frequent AS f ON f.thread_id = n.thread_id
  WHERE n.name = 'backpropagation'
  WINDOW own AS (PARTITION BY n.thread_id ORDER BY n.start_ns, n.end_ns DESC)
), cycle AS (
  SELECT thread_id, greatest(number, 1) AS number, min(start_ns) AS start_ns, max(end_ns) AS end_ns
  FROM begun GROUP BY ALL
)
