-- How often each thread left the CPU, why, and how often it changed the CPU.
-- A stay on the CPU that the end of the thread or of the trace closes is no switch: nothing
-- follows it. Where the interval after a stay was lost, the switch counts, but its cause is unknown.
-- A thread that is woken while it still goes to sleep has a runnable interval with a waker right
-- after its stay: it meant to wait, so that is voluntary.
CREATE OR REPLACE VIEW thread_switch AS
WITH stay AS (
  SELECT
    thread_id, end_ns, cpu, next_state, next_waker_kind, is_followed,
    lag(thread_id) OVER () AS before_thread_id,
    lag(cpu) OVER () AS before_cpu
  FROM _state_step
  WHERE state = 'running'
), counted AS (
  SELECT
    thread_id,
    count(*) AS switch_ins,
    count(*) FILTER (WHERE is_followed) AS followed,
    count(*) FILTER (WHERE next_state IN ('sleeping', 'blocked') OR (next_state = 'runnable' AND next_waker_kind IS NOT NULL)) AS voluntary,
    count(*) FILTER (WHERE next_state = 'runnable' AND next_waker_kind IS NULL) AS involuntary,
    count(*) FILTER (WHERE before_thread_id = thread_id AND before_cpu <> cpu) AS migrations,
    max(end_ns) FILTER (WHERE NOT is_followed) AS last_end_ns
  FROM stay
  GROUP BY thread_id
), switched AS (
  SELECT
    t.thread_id, t.process_id,
    CASE WHEN m.measured THEN coalesce(c.followed, 0) + CASE WHEN c.last_end_ns < t.end_ns THEN 1 ELSE 0 END END AS switches,
    CASE WHEN m.measured THEN coalesce(c.voluntary, 0) END AS voluntary,
    CASE WHEN m.measured THEN coalesce(c.involuntary, 0) END AS involuntary,
    CASE WHEN m.measured THEN coalesce(c.migrations, 0) END AS migrations,
    CASE WHEN m.measured THEN coalesce(c.switch_ins, 0) END AS switch_ins
  FROM thread AS t
  LEFT JOIN counted AS c ON c.thread_id = t.thread_id
  LEFT JOIN _measured AS m ON m.process_id IS NOT DISTINCT FROM t.process_id AND m.kind = 'thread_state'
)
SELECT
  thread_id, process_id, switches,
  voluntary AS voluntary_switches,
  involuntary AS involuntary_switches,
  switches - voluntary - involuntary AS unknown_switches,
  migrations, switch_ins
FROM switched;
COMMENT ON VIEW thread_switch IS 'How often each thread left the CPU and came back: switches = voluntary + involuntary + unknown; NULL: not measured';
COMMENT ON COLUMN thread_switch.thread_id IS 'The thread';
COMMENT ON COLUMN thread_switch.process_id IS 'The process it belongs to';
COMMENT ON COLUMN thread_switch.switches IS 'Times it left the CPU while it lived; its end is no switch';
COMMENT ON COLUMN thread_switch.voluntary_switches IS 'It left to wait: it went sleeping or blocked';
COMMENT ON COLUMN thread_switch.involuntary_switches IS 'It could have gone on: it was preempted, or yielded';
COMMENT ON COLUMN thread_switch.unknown_switches IS 'The records after it were lost, so the cause is not known';
COMMENT ON COLUMN thread_switch.migrations IS 'Times it ran on another CPU than the time before';
COMMENT ON COLUMN thread_switch.switch_ins IS 'Times it got a CPU: its intervals running, one that was under way at the start included';
