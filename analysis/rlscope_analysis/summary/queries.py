"""The queries behind a summary: see read.py, and docs/summary.md for what they tell."""

THREADS_SQL = """
SELECT
  t.thread_id, t.process_id, t.tid, t.name, t.start_ns, t.end_ns, t.ended,
  m.running_ns, m.runnable_ns, m.sleeping_ns, m.blocked_ns, m.lost_ns, m.lifetime_ns
FROM thread AS t JOIN thread_time AS m ON m.thread_id = t.thread_id
WHERE m.running_ns IS NOT NULL
"""
# The same from the overlaps, which hold the time in each state too: without a pass over the states.
SWEPT_THREADS_SQL = """
WITH state_time AS (
  SELECT
    thread_id,
    sum(time_ns) FILTER (WHERE state = 'running')::BIGINT AS running_ns,
    sum(time_ns) FILTER (WHERE state = 'runnable')::BIGINT AS runnable_ns,
    sum(time_ns) FILTER (WHERE state = 'sleeping')::BIGINT AS sleeping_ns,
    sum(time_ns) FILTER (WHERE state = 'blocked')::BIGINT AS blocked_ns
  FROM thread_overlap_coded
  GROUP BY thread_id
)
SELECT
  t.thread_id, t.process_id, t.tid, t.name, t.start_ns, t.end_ns, t.ended,
  coalesce(s.running_ns, 0), coalesce(s.runnable_ns, 0), coalesce(s.sleeping_ns, 0),
  coalesce(s.blocked_ns, 0), t.lost_ns, t.end_ns - t.start_ns
FROM thread AS t
JOIN _measured AS m ON m.process_id IS NOT DISTINCT FROM t.process_id AND m.kind = 'thread_state'
LEFT JOIN state_time AS s ON s.thread_id = t.thread_id
WHERE m.measured
"""
# States that the overlaps do not hold as they are: clipped, or not in order.
STATE_FAULTS_SQL = """
SELECT EXISTS (
  FROM overlap_fault WHERE relation IN ('thread_state_coded', 'thread') OR fault = 'disordered'
)
"""
SWITCHES_SQL = """
SELECT
  thread_id, switches, voluntary_switches, involuntary_switches, unknown_switches, migrations
FROM thread_switch
"""
# Quantiles do not add up: those of a process and of the trace come from its waits themselves; both
# in one call, which sorts once.
LATENCY_SQL = """
SELECT
  grouping(thread_id, process_id) AS level, thread_id, process_id,
  count(*), quantile_disc(duration_ns, [0.5, 0.99]), max(duration_ns)
FROM run_queue_latency
GROUP BY GROUPING SETS ((thread_id), (process_id), ())
"""
BY_THREAD, BY_PROCESS, OVER_ALL = 1, 2, 3
WAKERS_SQL = "SELECT thread_id, waker_kind, waker_thread_id, wakeups FROM waker"
PROCESSES_SQL = """
SELECT process_id, parent_process_id, pid, name, command, exit_code, start_ns, end_ns FROM process
"""
# Of these the summary cannot tell states and switches.
UNMEASURED_SQL = """
SELECT p.process_id
FROM process AS p
LEFT JOIN _measured AS m ON m.process_id = p.process_id AND m.kind = 'thread_state'
WHERE NOT coalesce(m.measured, FALSE)
"""
# Of a trace without processes; one that does not say has states.
STATES_MEASURED_SQL = (
    "SELECT coalesce(bool_or(measured), TRUE) FROM coverage WHERE kind = 'thread_state'"
)
# Clipped is what happens to whatever was open at either end of a recording; states have a note of
# their own.
FAULTS_SQL = """
SELECT relation, fault, count
FROM overlap_fault
WHERE fault <> 'clipped' AND relation <> 'thread_state_coded'
ORDER BY ALL
"""
# By kind and reason; those about all processes first, then those of the first process.
NOT_MEASURED_SQL = """
SELECT
  c.kind, c.facts, c.process_id IS NULL AS of_all,
  bool_or(c.process_id IS NULL AND EXISTS (
    FROM coverage AS o WHERE o.kind = c.kind AND o.process_id IS NOT NULL
  )) AS has_others,
  count(DISTINCT c.process_id) AS processes,
  arg_min(p.pid, p.process_id) AS pid, arg_min(p.name, p.process_id) AS name,
  coalesce(c.measured, FALSE) AS is_measured
FROM _covered AS c LEFT JOIN process AS p ON p.process_id = c.process_id
WHERE NOT coalesce(c.measured, FALSE) OR c.part
GROUP BY c.kind, c.facts, of_all, is_measured
ORDER BY c.kind, of_all DESC, is_measured, min(c.process_id)
"""
# What the governor and the gate decided; of those alike in number what came first (numbers).
SITES_SQL = """
SELECT state, code, detail, numbers, layer, count(*) AS count, min(symbol) AS symbol
FROM site
WHERE state IN ('dropped', 'not_probed')
GROUP BY state, code, detail, numbers, layer
ORDER BY count(*) DESC, state, numbers, code, detail, layer, min(symbol)
"""
# Layers whose calls were not recorded from the start of every process, though later they were.
LATE_PROBES_SQL = """
SELECT layer, max(since_ns) AS since_ns
FROM _layer_gap
WHERE reason IS NULL AND since_ns IS NOT NULL
GROUP BY layer ORDER BY layer
"""
MEASURED_KINDS_SQL = "SELECT DISTINCT kind FROM _measured WHERE measured"
HAS_OPERATIONS_SQL = "SELECT EXISTS (FROM operation_coded)"
ENDED_CLEANLY_SQL = """
SELECT coalesce(max(value) FILTER (WHERE key = 'ended_cleanly'), '') <> 'false' FROM meta
"""
THREAD_NAMES_SQL = """
SELECT t.thread_id, p.pid, t.tid, t.name
FROM thread AS t LEFT JOIN process AS p ON p.process_id = t.process_id
"""
THREAD_COUNT_SQL = "SELECT count(*) FROM thread"
LOSSES_SQL = """
SELECT kind, code, count, first_ns, cpu, record, pid, bytes, detail FROM trace_stat
"""
CLOCK_SQL = "SELECT ts_ns, realtime_ns FROM clock ORDER BY ts_ns LIMIT 1"
# The views rely on the stored order: intervals of one thread together, ascending, not overlapping.
# No thread is -1: the first row begins a thread too.
DISORDER_SQL = """
WITH neighbour AS (
  SELECT
    thread_id, start_ns,
    lag(thread_id, 1, -1) OVER () AS before_thread_id,
    lag(end_ns) OVER () AS before_end_ns
  FROM thread_state_coded
), break AS (
  SELECT thread_id
  FROM neighbour
  WHERE before_thread_id <> thread_id OR before_end_ns > start_ns
)
SELECT count(*) - count(DISTINCT thread_id) FROM break
"""
