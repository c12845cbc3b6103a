-- The updates of the thread that learns most in each process: backpropagations with no acting between
-- them (updated). An iteration lasts from the end of one to the end of the next; the first from the
-- first phase on (spaced). A thread that does not act itself learns without a break: there an update
-- is what it learned from the same input (portion), else a cycle of what a framework calls its
-- backpropagations is one (a critic's and an actor's), else each (cycle).
-- Where the thread steps environments itself (and does not only look at one), that is acting: a
-- forward pass alone may be one of an update, between the steps of two optimizers. Where it waits for
-- others that do, a forward pass is acting that is followed by something else than learning; and so is
-- the first of all, which the recorder takes for learning: it has not seen yet what comes of one.
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
    bool_or(name = 'wait') AS waits, bool_or(name = 'inference') AS asks,
    min(CASE WHEN name <> 'wait' THEN start_ns END) AS first_ns
  FROM own GROUP BY thread_id
), named AS (
  -- Waits, of which there may be very many, are only there to be followed by something.
  SELECT o.* REPLACE (
    CASE WHEN o.start_ns = h.first_ns AND o.next_name = 'wait' AND h.asks AND NOT h.steps THEN 'inference' ELSE o.name END
    AS name
  ), h.steps, h.waits, h.first_ns
  FROM own AS o JOIN habit AS h ON h.thread_id = o.thread_id WHERE o.name <> 'wait'
), acting AS (
  SELECT
    *,
    name IN ('simulation', 'rollout') OR (name = 'inference' AND NOT steps
      AND (NOT waits OR next_name IS DISTINCT FROM 'backpropagation')) AS is_acting
  FROM named
), numbered AS (
  SELECT
    *, count(CASE WHEN is_acting THEN 1 END) OVER own AS acts
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
  SELECT
    n.thread_id, n.start_ns, n.end_ns, row_number() OVER own AS number,
    count(*) OVER (PARTITION BY n.thread_id) AS pieces,
    count(CASE WHEN n.called = f.called THEN 1 END) OVER own AS cycle
  FROM numbered AS n JOIN most_frequent AS f ON f.thread_id = n.thread_id
  WHERE n.name = 'backpropagation'
  WINDOW own AS (PARTITION BY n.thread_id ORDER BY n.start_ns, n.end_ns DESC)
), piece AS (
  FROM begun WHERE thread_id NOT IN (SELECT thread_id FROM numbered WHERE is_acting)
), message AS (
  -- Of those that are read without a call of Python's only the wakeup from outside tells.
  SELECT thread_id, start_ns AS ts_ns, waker_thread_id AS sender_thread_id FROM thread_state_coded
  WHERE state = 'runnable' AND waker_kind = 'thread'
  UNION ALL
  SELECT thread_id, read_ns, sender_thread_id FROM early_message
), input AS (
  SELECT thread_id, start_ns AS ts_ns, start_ns AS since_ns, 'wait' AS kind FROM own WHERE name = 'wait'
  UNION ALL
  SELECT m.thread_id, m.ts_ns, p.start_ns, 'message'
  FROM message AS m
  JOIN thread AS t ON t.thread_id = m.thread_id
  JOIN thread AS k ON k.thread_id = m.sender_thread_id AND k.process_id <> t.process_id
  JOIN process AS p ON p.process_id = k.process_id
  WHERE m.thread_id IN (SELECT thread_id FROM piece)
), pause AS (
  SELECT
    thread_id, number, lead(start_ns) OVER own - end_ns AS pause_ns,
    median(end_ns - start_ns) OVER (PARTITION BY thread_id) AS piece_ns
  FROM piece WINDOW own AS (PARTITION BY thread_id ORDER BY number)
), idle AS (
  -- What it waits for may be told by nothing, as where it asks for it in a loop. Its pauses are much
  -- longer than a piece then, or much shorter, and hardly one is in between.
  SELECT
    thread_id, number,
    number - lag(number, 1, 0) OVER (PARTITION BY thread_id ORDER BY number) AS pieces
  FROM pause
  WHERE pause_ns > 3 * piece_ns AND thread_id IN (
    SELECT thread_id FROM pause GROUP BY thread_id
    HAVING count(CASE WHEN pause_ns BETWEEN piece_ns / 4 AND 3 * piece_ns THEN 1 END) <= 0.05 * count(*)
  )
), regular AS (
  -- And it does the same each time: a checkpoint now and then is no input.
  SELECT thread_id
  FROM (SELECT thread_id, pieces, count(*) AS times FROM idle GROUP BY ALL)
  GROUP BY thread_id
  HAVING sum(times) >= 10 AND max(times) >= 0.9 * sum(times)
    AND arg_max(pieces, (times, -pieces)) BETWEEN 2 AND 64
), gap AS (
  SELECT thread_id, 'idle' AS kind, number FROM idle WHERE thread_id IN (FROM regular)
  UNION ALL
  -- A process that lives for its message only is a command, and no worker.
  SELECT p.thread_id, i.kind, p.number
  FROM input AS i
  ASOF JOIN piece AS p ON p.thread_id = i.thread_id AND p.start_ns <= i.ts_ns
  WHERE i.ts_ns >= p.end_ns AND p.number < p.pieces
    AND (i.kind = 'wait' OR i.since_ns <= p.end_ns)
  GROUP BY ALL
), feeding AS (
  -- Where Python tells of the waits, all between two of them is one piece but before the first one;
  -- else messages tell, else pauses: so the kinds are called.
  -- What comes once is no input, and messages between most of the pieces are part of learning, as is
  -- all that comes between those of a cycle.
  SELECT g.thread_id, max(g.kind) AS kind
  FROM (SELECT thread_id, kind, count(*) AS times, min(number) AS first FROM gap GROUP BY ALL) AS g
  JOIN (
    SELECT thread_id, count(*) AS times, count(DISTINCT cycle) AS cycles FROM begun GROUP BY ALL
  ) AS b ON b.thread_id = g.thread_id
  WHERE g.times > 1 AND g.times + 1 < b.cycles
    AND CASE g.kind
      WHEN 'wait' THEN b.times - g.first <= 1.1 * g.times
      ELSE 2 * g.times <= b.times
    END
  GROUP BY g.thread_id
), given AS (
  SELECT
    p.*, f.kind,
    count(g.number) OVER (PARTITION BY p.thread_id ORDER BY p.number) AS portion
  FROM piece AS p
  JOIN feeding AS f ON f.thread_id = p.thread_id
  LEFT JOIN gap AS g ON g.thread_id = p.thread_id AND g.kind = f.kind AND g.number = p.number - 1
), usual AS (
  -- Where most portions that came by messages have as many pieces as each other: so many.
  SELECT thread_id, arg_max(pieces, (times, -pieces)) AS pieces
  FROM (
    SELECT thread_id, pieces, count(*) AS times
    FROM (
      SELECT thread_id, portion, count(*) AS pieces FROM given WHERE kind = 'message' GROUP BY ALL
    )
    GROUP BY ALL
  )
  GROUP BY thread_id HAVING 2 * max(times) >= sum(times)
), paused AS (
  SELECT
    g.*, g.start_ns - lag(g.end_ns) OVER own AS pause_ns,
    round(count(*) OVER (PARTITION BY g.thread_id, g.portion) / u.pieces) AS parts
  FROM given AS g LEFT JOIN usual AS u ON u.thread_id = g.thread_id
  WINDOW own AS (PARTITION BY g.thread_id, g.portion ORDER BY g.number)
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY thread_id, portion ORDER BY pause_ns DESC NULLS LAST, number) AS rank
  FROM paused
), divided AS (
  -- One of several times as many had input in between that did not have to be waited for: it came
  -- where the thread did something else for longest.
  SELECT
    *,
    count(CASE WHEN rank < parts THEN 1 END) OVER (PARTITION BY thread_id, portion ORDER BY number) AS part
  FROM ranked
), portion AS (
  SELECT
    thread_id, portion, part, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
    sum(end_ns - start_ns) AS time_ns, max(end_ns - start_ns) AS longest_ns,
    any_value(parts) AS parts
  FROM divided GROUP BY ALL
), even AS (
  -- In one that is much longer than the others input came by another way. The first piece may be slow.
  FROM portion
  QUALIFY parts IS NOT NULL OR time_ns - longest_ns <= 4 * median(time_ns) OVER (PARTITION BY thread_id)
), cycle AS (
  SELECT thread_id, start_ns, end_ns FROM even
  UNION ALL
  SELECT b.thread_id, min(b.start_ns), max(b.end_ns)
  FROM begun AS b
  WHERE NOT EXISTS (
    FROM even AS e
    WHERE e.thread_id = b.thread_id AND b.start_ns BETWEEN e.start_ns AND e.end_ns
  )
  GROUP BY b.thread_id, greatest(b.cycle, 1)
)
