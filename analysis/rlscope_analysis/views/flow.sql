-- Causal edges: who let whom go on. docs/flow.md says what each kind is, and what no trace knows.
-- An edge is listed once, points forward in time, and both of its ends are in the trace. The columns of
-- the private views are those of flow, but for what is always the same there.

-- Each runnable interval that a wakeup began is one edge; why the thread slept names it.
-- A parent that waits for the end of a child sleeps; one that waits until its child of vfork runs a
-- program is blocked, and goes on long before that child ends.
CREATE OR REPLACE VIEW _flow_wakeup AS
WITH woken AS (
  SELECT
    s.thread_id, s.start_ns, s.waker_kind, s.previous_state, w.kind AS wait,
    CASE WHEN s.start_ns BETWEEN k.start_ns AND k.end_ns THEN k.thread_id END AS waker_thread_id,
    k.process_id AS waker_process_id
  FROM _state_step AS s
  LEFT JOIN wait_coded AS w ON w.thread_id = s.thread_id AND w.end_ns = s.start_ns
  LEFT JOIN thread AS k ON k.thread_id = s.waker_thread_id
  WHERE s.state = 'runnable' AND s.waker_kind IS NOT NULL
)
SELECT
  CASE
    WHEN w.waker_thread_id IS NULL THEN 'wakeup'
    WHEN w.start_ns = t.start_ns THEN 'fork'
    WHEN w.wait IN ('pipe', 'socket') THEN 'message'
    WHEN w.wait = 'gil' AND w.waker_process_id = t.process_id THEN 'gil'
    WHEN w.wait = 'process' AND w.previous_state = 'sleeping' AND p.parent_process_id = t.process_id THEN 'exit'
    ELSE 'wakeup'
  END AS kind,
  CASE
    WHEN w.waker_thread_id IS NOT NULL THEN 'thread' WHEN w.waker_kind = 'thread' THEN 'unknown' ELSE w.waker_kind::VARCHAR
  END AS from_kind,
  CASE WHEN w.waker_thread_id IS NOT NULL THEN w.waker_process_id END AS from_process_id,
  w.waker_thread_id AS from_thread_id, w.start_ns AS from_ns,
  t.process_id AS to_process_id, t.thread_id AS to_thread_id, w.start_ns AS to_ns,
  w.wait::VARCHAR AS wait
FROM woken AS w
JOIN thread AS t ON t.thread_id = w.thread_id
LEFT JOIN process AS p ON p.process_id = w.waker_process_id;
COMMENT ON VIEW _flow_wakeup IS 'Private: may change without notice. The edges of flow that are wakeups';
COMMENT ON COLUMN _flow_wakeup.kind IS 'As in flow';
COMMENT ON COLUMN _flow_wakeup.from_kind IS 'As in flow';
COMMENT ON COLUMN _flow_wakeup.from_process_id IS 'As in flow';
COMMENT ON COLUMN _flow_wakeup.from_thread_id IS 'As in flow';
COMMENT ON COLUMN _flow_wakeup.from_ns IS 'As in flow';
COMMENT ON COLUMN _flow_wakeup.to_process_id IS 'As in flow';
COMMENT ON COLUMN _flow_wakeup.to_thread_id IS 'As in flow';
COMMENT ON COLUMN _flow_wakeup.to_ns IS 'As in flow';
COMMENT ON COLUMN _flow_wakeup.wait IS 'As in flow';

-- What a reader found when it had a CPU again: it did not sleep for it, so nobody woke it.
CREATE OR REPLACE VIEW _flow_early_message AS
SELECT
  s.process_id AS from_process_id, m.sender_thread_id AS from_thread_id, m.sent_ns AS from_ns,
  t.process_id AS to_process_id, m.thread_id AS to_thread_id, m.read_ns AS to_ns, m.channel
FROM early_message AS m
JOIN thread AS s ON s.thread_id = m.sender_thread_id AND m.sent_ns BETWEEN s.start_ns AND s.end_ns
JOIN thread AS t ON t.thread_id = m.thread_id AND m.read_ns BETWEEN t.start_ns AND t.end_ns
WHERE m.sent_ns <= m.read_ns;
COMMENT ON VIEW _flow_early_message IS 'Private: may change without notice. The edges of flow from who sent a message to a reader that did not sleep for it';
COMMENT ON COLUMN _flow_early_message.from_process_id IS 'As in flow';
COMMENT ON COLUMN _flow_early_message.from_thread_id IS 'As in flow';
COMMENT ON COLUMN _flow_early_message.from_ns IS 'As in flow';
COMMENT ON COLUMN _flow_early_message.to_process_id IS 'As in flow';
COMMENT ON COLUMN _flow_early_message.to_thread_id IS 'As in flow';
COMMENT ON COLUMN _flow_early_message.to_ns IS 'As in flow';
COMMENT ON COLUMN _flow_early_message.channel IS 'As in early_message';

-- The GPU had the work when the call returned, or began it before: whichever came first.
CREATE OR REPLACE VIEW _flow_launch AS
WITH launched AS (
  SELECT
    a.process_id, a.device_id, a.stream_id, a.correlation_id, a.start_ns,
    c.call.thread_id AS thread_id, least(-c.call.minus_end_ns, a.start_ns) AS from_ns
  FROM gpu_activity_coded AS a
  JOIN _launching_call AS c ON c.process_id = a.process_id AND c.correlation_id = a.correlation_id
  WHERE a.kind <> 'sync'
)
-- Once: whoever joins activities with it would get those that a trace has many times by their square.
SELECT DISTINCT
  l.process_id, l.thread_id AS from_thread_id, l.from_ns,
  l.device_id AS to_device_id, l.stream_id AS to_stream_id, l.start_ns AS to_ns, l.correlation_id
FROM launched AS l
JOIN thread AS t ON t.thread_id = l.thread_id AND l.from_ns BETWEEN t.start_ns AND t.end_ns;
COMMENT ON VIEW _flow_launch IS 'Private: may change without notice. The edges of flow from a call to the GPU';
COMMENT ON COLUMN _flow_launch.process_id IS 'The process of both ends';
COMMENT ON COLUMN _flow_launch.from_thread_id IS 'As in flow';
COMMENT ON COLUMN _flow_launch.from_ns IS 'As in flow';
COMMENT ON COLUMN _flow_launch.to_device_id IS 'As in flow';
COMMENT ON COLUMN _flow_launch.to_stream_id IS 'As in flow';
COMMENT ON COLUMN _flow_launch.to_ns IS 'As in flow';
COMMENT ON COLUMN _flow_launch.correlation_id IS 'As in flow';

-- One that begins while an earlier one of its stream still runs has no edge: what it waited for is not known.
CREATE OR REPLACE VIEW _flow_stream AS
WITH followed AS (
  SELECT
    process_id, device_id, stream_id, correlation_id, start_ns,
    max(end_ns) OVER (
      PARTITION BY process_id, device_id, context_id, stream_id ORDER BY start_ns, end_ns, correlation_id
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS before_end_ns
  FROM gpu_activity_coded
  WHERE kind <> 'sync' AND stream_id IS NOT NULL
)
SELECT process_id, device_id, stream_id, before_end_ns AS from_ns, start_ns AS to_ns, correlation_id
FROM followed
WHERE before_end_ns <= start_ns;
COMMENT ON VIEW _flow_stream IS 'Private: may change without notice. The edges of flow from one activity to the next of its stream';
COMMENT ON COLUMN _flow_stream.process_id IS 'The process of both ends';
COMMENT ON COLUMN _flow_stream.device_id IS 'The GPU of both ends';
COMMENT ON COLUMN _flow_stream.stream_id IS 'The stream of both ends';
COMMENT ON COLUMN _flow_stream.from_ns IS 'As in flow';
COMMENT ON COLUMN _flow_stream.to_ns IS 'As in flow';
COMMENT ON COLUMN _flow_stream.correlation_id IS 'As in flow';

-- What calls gave to a stream, in the order of the calls: of a graph all that it did.
CREATE OR REPLACE VIEW _given_to_stream AS
SELECT
  a.process_id, a.device_id, a.stream_id, c.call.start_ns AS call_ns,
  min(a.start_ns) AS start_ns, max(a.end_ns) AS end_ns, max(a.correlation_id) AS correlation_id
FROM gpu_activity_coded AS a
JOIN _launching_call AS c ON c.process_id = a.process_id AND c.correlation_id = a.correlation_id
WHERE a.kind <> 'sync' AND a.stream_id IS NOT NULL
GROUP BY a.process_id, a.device_id, a.stream_id, c.call.start_ns;
COMMENT ON VIEW _given_to_stream IS 'Private: may change without notice. What calls gave to a stream';
COMMENT ON COLUMN _given_to_stream.process_id IS 'The process';
COMMENT ON COLUMN _given_to_stream.device_id IS 'The GPU: gpu_device';
COMMENT ON COLUMN _given_to_stream.stream_id IS 'The stream';
COMMENT ON COLUMN _given_to_stream.call_ns IS 'When the call was entered';
COMMENT ON COLUMN _given_to_stream.start_ns IS 'When the GPU began it';
COMMENT ON COLUMN _given_to_stream.end_ns IS 'When the GPU had done all of it';
COMMENT ON COLUMN _given_to_stream.correlation_id IS 'The call, within its process';

-- An event is what its stream had been given before it was recorded.
CREATE OR REPLACE VIEW _waited_event AS
WITH recorded AS (
  SELECT w.process_id, w.correlation_id, w.device_id, w.stream_id, w.event_stream_id, c.call.start_ns AS recorded_ns
  FROM gpu_event_wait AS w
  JOIN _launching_call AS c ON c.process_id = w.process_id AND c.correlation_id = w.event_correlation_id
  WHERE w.correlation_id IS NOT NULL AND w.event_stream_id IS NOT NULL
)
SELECT
  r.process_id, r.correlation_id, r.device_id, r.stream_id, r.event_stream_id,
  g.end_ns, g.correlation_id AS event_of_correlation_id
FROM recorded AS r
ASOF JOIN _given_to_stream AS g
  ON g.process_id = r.process_id AND g.device_id = r.device_id AND g.stream_id = r.event_stream_id
  AND g.call_ns <= r.recorded_ns;
COMMENT ON VIEW _waited_event IS 'Private: may change without notice. Events that were waited for, and when they were due';
COMMENT ON COLUMN _waited_event.process_id IS 'The process';
COMMENT ON COLUMN _waited_event.correlation_id IS 'The call that waits, or lets a stream wait';
COMMENT ON COLUMN _waited_event.device_id IS 'The GPU: gpu_device';
COMMENT ON COLUMN _waited_event.stream_id IS 'The stream that waits; NULL: the thread does';
COMMENT ON COLUMN _waited_event.event_stream_id IS 'The stream that recorded the event';
COMMENT ON COLUMN _waited_event.end_ns IS 'When the GPU had done what the event stands for';
COMMENT ON COLUMN _waited_event.event_of_correlation_id IS 'The call that gave it to the GPU';

-- The first that its stream was given after it was told to wait.
CREATE OR REPLACE VIEW _flow_event AS
SELECT DISTINCT
  w.process_id, w.device_id, w.event_stream_id AS from_stream_id, w.end_ns AS from_ns,
  w.stream_id AS to_stream_id, g.start_ns AS to_ns, g.correlation_id
FROM (
  SELECT e.process_id, e.device_id, e.stream_id, e.event_stream_id, e.end_ns, c.call.start_ns AS waited_ns
  FROM _waited_event AS e
  JOIN _launching_call AS c ON c.process_id = e.process_id AND c.correlation_id = e.correlation_id
  WHERE e.stream_id <> e.event_stream_id
) AS w
ASOF JOIN _given_to_stream AS g
  ON g.process_id = w.process_id AND g.device_id = w.device_id AND g.stream_id = w.stream_id
  AND g.call_ns >= w.waited_ns
WHERE w.end_ns <= g.start_ns;
COMMENT ON VIEW _flow_event IS 'Private: may change without notice. The edges of flow from a stream that recorded an event to one that waited for it';
COMMENT ON COLUMN _flow_event.process_id IS 'The process of both ends';
COMMENT ON COLUMN _flow_event.device_id IS 'The GPU of both ends';
COMMENT ON COLUMN _flow_event.from_stream_id IS 'As in flow';
COMMENT ON COLUMN _flow_event.from_ns IS 'As in flow';
COMMENT ON COLUMN _flow_event.to_stream_id IS 'As in flow';
COMMENT ON COLUMN _flow_event.to_ns IS 'As in flow';
COMMENT ON COLUMN _flow_event.correlation_id IS 'As in flow';

-- Of several activities that ended at one instant, the one with the highest correlation_id.
CREATE OR REPLACE VIEW _flow_sync AS
WITH blocking AS (
  -- A call of the runtime and that of the driver inside it wait once.
  SELECT
    t.process_id, c.thread_id, c.start_ns, c.end_ns, c.kind, c.name_id, c.correlation_id,
    coalesce(max(c.end_ns) OVER (
      PARTITION BY c.thread_id ORDER BY c.start_ns, c.end_ns DESC, c.kind DESC, c.correlation_id, c.name_id
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) >= c.end_ns, FALSE) AS is_inner
  FROM cuda_call_coded AS c
  JOIN thread AS t ON t.thread_id = c.thread_id
  WHERE c.kind IN ('memcpy', 'sync') AND c.end_ns BETWEEN t.start_ns AND t.end_ns
), called AS (
  SELECT c.process_id, c.thread_id, c.start_ns, c.end_ns, c.kind, c.correlation_id, s.value AS name
  FROM blocking AS c LEFT JOIN string AS s ON s.string_id = c.name_id
  WHERE NOT c.is_inner
), sync_record AS (
  -- What CUPTI recorded of a wait: its stream, unless it was for an event or for all streams.
  SELECT process_id, correlation_id, max(device_id) AS device_id, max(stream_id) AS stream_id
  FROM gpu_activity_coded
  WHERE kind = 'sync' AND correlation_id IS NOT NULL
  GROUP BY process_id, correlation_id
  HAVING max(device_id) IS NOT NULL AND max(stream_id) IS NOT NULL
), event AS (
  SELECT
    process_id, correlation_id,
    max({'end_ns': end_ns, 'device_id': device_id, 'stream_id': event_stream_id, 'known': event_of_correlation_id}) AS event
  FROM _waited_event
  WHERE stream_id IS NULL
  GROUP BY process_id, correlation_id
), ended AS (
  SELECT process_id, device_id, stream_id, end_ns, max(correlation_id) AS correlation_id
  FROM gpu_activity_coded
  WHERE kind <> 'sync'
  GROUP BY process_id, device_id, stream_id, end_ns
), ended_last AS (
  SELECT
    process_id, end_ns,
    max({'known': coalesce(correlation_id, -1), 'device_id': device_id, 'stream': coalesce(stream_id, -1)}) AS activity
  FROM ended
  GROUP BY process_id, end_ns
), ended_of_call AS (
  SELECT process_id, correlation_id, max({'end_ns': end_ns, 'device_id': device_id, 'stream': coalesce(stream_id, -1)}) AS activity
  FROM gpu_activity_coded
  WHERE kind <> 'sync' AND correlation_id IS NOT NULL
  GROUP BY process_id, correlation_id
), one_device AS (
  SELECT process_id FROM ended GROUP BY process_id HAVING count(DISTINCT device_id) = 1
), waited AS (
  SELECT
    c.process_id, c.thread_id, c.start_ns, c.end_ns, w.device_id, w.stream_id, e.event,
    o.process_id IS NOT NULL AND regexp_matches(c.name, '(Device|Ctx|Context|Thread)Synchronize') AS is_for_all
  FROM called AS c
  LEFT JOIN sync_record AS w ON w.process_id = c.process_id AND w.correlation_id = c.correlation_id
  LEFT JOIN event AS e ON e.process_id = c.process_id AND e.correlation_id = c.correlation_id
  LEFT JOIN one_device AS o ON o.process_id = c.process_id
  WHERE c.kind = 'sync'
), found AS (
  SELECT
    w.process_id, w.thread_id, w.start_ns, w.end_ns,
    a.device_id, a.stream_id, a.end_ns AS from_ns, a.correlation_id, FALSE AS is_assumed
  FROM waited AS w
  ASOF JOIN ended AS a
    ON a.process_id = w.process_id AND a.device_id = w.device_id AND a.stream_id = w.stream_id AND a.end_ns <= w.end_ns
  UNION ALL
  SELECT
    w.process_id, w.thread_id, w.start_ns, w.end_ns,
    a.activity.device_id, nullif(a.activity.stream, -1), a.end_ns, nullif(a.activity.known, -1), w.is_for_all IS NOT TRUE
  FROM waited AS w
  ASOF JOIN ended_last AS a ON a.process_id = w.process_id AND a.end_ns <= w.end_ns
  WHERE w.stream_id IS NULL AND w.event IS NULL
  UNION ALL
  SELECT
    process_id, thread_id, start_ns, end_ns,
    event.device_id, event.stream_id, event.end_ns, event.known, FALSE
  FROM waited
  WHERE stream_id IS NULL AND event IS NOT NULL AND event.end_ns <= end_ns
  UNION ALL
  -- A copy that its call waited for: also one called asynchronous, to memory that is not pinned.
  SELECT
    c.process_id, c.thread_id, c.start_ns, c.end_ns,
    a.activity.device_id, nullif(a.activity.stream, -1), a.activity.end_ns, c.correlation_id, FALSE
  FROM called AS c
  JOIN ended_of_call AS a ON a.process_id = c.process_id AND a.correlation_id = c.correlation_id
  WHERE c.kind = 'memcpy' AND a.activity.end_ns <= c.end_ns
)
SELECT
  process_id, device_id AS from_device_id, stream_id AS from_stream_id, from_ns,
  thread_id AS to_thread_id, end_ns AS to_ns, correlation_id, is_assumed
FROM found
WHERE from_ns > start_ns;
COMMENT ON VIEW _flow_sync IS 'Private: may change without notice. The edges of flow from the GPU to a call that waited for it';
COMMENT ON COLUMN _flow_sync.process_id IS 'The process of both ends';
COMMENT ON COLUMN _flow_sync.from_device_id IS 'As in flow';
COMMENT ON COLUMN _flow_sync.from_stream_id IS 'As in flow';
COMMENT ON COLUMN _flow_sync.from_ns IS 'As in flow';
COMMENT ON COLUMN _flow_sync.to_thread_id IS 'As in flow';
COMMENT ON COLUMN _flow_sync.to_ns IS 'As in flow';
COMMENT ON COLUMN _flow_sync.correlation_id IS 'As in flow';
COMMENT ON COLUMN _flow_sync.is_assumed IS 'As in flow';

CREATE OR REPLACE VIEW flow AS
SELECT
  kind, from_kind,
  from_process_id, from_thread_id, NULL::INTEGER AS from_device_id, NULL::BIGINT AS from_stream_id, from_ns,
  to_process_id, to_thread_id, NULL::INTEGER AS to_device_id, NULL::BIGINT AS to_stream_id, to_ns,
  wait, NULL::BIGINT AS correlation_id, FALSE AS is_assumed
FROM _flow_wakeup
UNION ALL
SELECT
  'message', 'thread',
  from_process_id, from_thread_id, NULL, NULL, from_ns,
  to_process_id, to_thread_id, NULL, NULL, to_ns,
  NULL, NULL, FALSE
FROM _flow_early_message
UNION ALL
SELECT
  'launch', 'thread',
  process_id, from_thread_id, NULL, NULL, from_ns,
  process_id, NULL, to_device_id, to_stream_id, to_ns,
  NULL, correlation_id, FALSE
FROM _flow_launch
UNION ALL
SELECT
  'stream', 'gpu',
  process_id, NULL, device_id, stream_id, from_ns,
  process_id, NULL, device_id, stream_id, to_ns,
  NULL, correlation_id, FALSE
FROM _flow_stream
UNION ALL
SELECT
  'event', 'gpu',
  process_id, NULL, device_id, from_stream_id, from_ns,
  process_id, NULL, device_id, to_stream_id, to_ns,
  NULL, correlation_id, FALSE
FROM _flow_event
UNION ALL
SELECT
  'sync', 'gpu',
  process_id, NULL, from_device_id, from_stream_id, from_ns,
  process_id, to_thread_id, NULL, NULL, to_ns,
  NULL, correlation_id, is_assumed
FROM _flow_sync
UNION ALL
SELECT
  'collective', 'gpu',
  from_process_id, NULL, from_device_id, from_stream_id, from_ns,
  to_process_id, NULL, to_device_id, to_stream_id, to_ns,
  NULL, correlation_id, FALSE
FROM _flow_collective;
COMMENT ON VIEW flow IS 'Every causal edge that the trace knows, once: what happened at to_ns could not have happened before from_ns. docs/flow.md tells what it lacks';
COMMENT ON COLUMN flow.kind IS 'How: fork (the creation of a thread or a process), exit (the end of a child), message (a pipe or a socket; without wait: the reader had not slept for it), gil (it was given the GIL), wakeup (any other), launch (a call had the GPU do something), stream (the one before it on the stream had ended), event (its stream waited for an event of another one), sync (the GPU had done what a call waited for), collective (another process began its part, the last that was missing)';
COMMENT ON COLUMN flow.from_kind IS 'What is at the start: thread, gpu; of a wakeup also timer, device (also the network), interrupt (one of them), outside (a thread outside the trace), unknown';
COMMENT ON COLUMN flow.from_process_id IS 'The process that the edge starts in; NULL: see from_kind';
COMMENT ON COLUMN flow.from_thread_id IS 'The thread that it starts on; NULL: see from_kind';
COMMENT ON COLUMN flow.from_device_id IS 'The GPU that it starts on; NULL: on none, or not known';
COMMENT ON COLUMN flow.from_stream_id IS 'The stream that it starts on; NULL: on none, or not known';
COMMENT ON COLUMN flow.from_ns IS 'When the cause was there: of a wakeup when the other became runnable, of a message without wait when it was sent, of a launch when its call returned or the GPU began (the earlier), of a collective when the GPU began it, else when the activity ended';
COMMENT ON COLUMN flow.to_process_id IS 'The process that the edge ends in';
COMMENT ON COLUMN flow.to_thread_id IS 'The thread that it ends on; NULL: it ends on a GPU';
COMMENT ON COLUMN flow.to_device_id IS 'The GPU that it ends on; NULL: on none, or not known';
COMMENT ON COLUMN flow.to_stream_id IS 'The stream that it ends on; NULL: on none, or not known';
COMMENT ON COLUMN flow.to_ns IS 'When the effect was there: the thread was runnable, or had read the message; the activity began, the call returned, the collective ended';
COMMENT ON COLUMN flow.wait IS 'What the thread had waited for, as in wait; NULL: not known, or no wakeup';
COMMENT ON COLUMN flow.correlation_id IS 'Of the GPU activity at the end of the edge, of sync at its start; NULL: not known, or none';
COMMENT ON COLUMN flow.is_assumed IS 'Whether the trace does not tell which activity a call waited for: the one of its process that ended last is taken';
