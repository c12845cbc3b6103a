"""Where a limit holds: in which process, and by whom or what, as far as that can be named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.cpu_list import allowed_cpus
from rlscope_analysis.findings.catalog import BY_CODE
from rlscope_analysis.query import run_query

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace

_OTHER_PROGRAM_SQL = """
SELECT by_program FROM critical_path
WHERE by_program IS NOT NULL
  AND iteration_id IN (SELECT iteration_id FROM _steady_iteration)
GROUP BY by_program ORDER BY sum(duration_ns) DESC, by_program LIMIT 1
"""
# How many processes have a limit beside the one with most of it, where that has less than half.
# Of a worker it is said that the one that leads waits for it: that one is not like it.
_OTHERS_SQL = """
WITH held AS (
  SELECT process_id, sum(time_ns) AS time_ns FROM limit_time
  WHERE code = '{code}' AND process_id IS NOT NULL GROUP BY process_id
), most AS (SELECT arg_max(process_id, (time_ns, -process_id)) AS process_id FROM held)
SELECT count(*) FILTER (
  WHERE h.process_id <> m.process_id AND h.process_id NOT IN (SELECT process_id FROM iteration)
)
FROM held AS h CROSS JOIN most AS m HAVING max(h.time_ns) < 0.5 * sum(h.time_ns)
"""
# Whose cause is code that can be named: the innermost function that most of its samples are in,
# or else the class whose methods they are in.
_BY_FUNCTION = frozenset({"python_overhead", "native_code", "worker_bound", "os_kernel"})
# A phase is a name already: of it the function counts that has more than half.
_OF_PHASE = frozenset({"serial_simulation", "simulation_bound", "inference_bound", "data_bound"})
_LEAST_SAMPLES, _MOST_OF_SAMPLES, _HALF_OF_SAMPLES = 20, 0.7, 0.5
# A function counts for one where it is Python, and for the other where it calls native code.
_HALVES = {"python_overhead": "native_code", "native_code": "python_overhead"}
_SAMPLED_SQL = """
WITH sampled AS (
  SELECT s.stack_id, count(*) AS n
  FROM cpu_sample_coded AS s
  ASOF JOIN (FROM limit_piece WHERE code = '{code}') AS l
    ON l.thread_id = s.thread_id AND l.start_ns <= s.ts_ns
  WHERE s.ts_ns < l.end_ns AND l.iteration_id IN (SELECT iteration_id FROM _steady_iteration)
  GROUP BY ALL
), framed AS (
  SELECT
    s.stack_id, s.n, unnest(k.frames) AS frame, generate_subscripts(k.frames, 1) AS depth,
    len(k.frames) AS leaf_depth
  FROM sampled AS s JOIN stack AS k ON k.stack_id = s.stack_id
), around AS (
  -- Once, also where it calls itself; whatever line of it.
  SELECT
    stack_id, n, regexp_replace(frame, ':[0-9]+[)]$', ')') AS function, max(depth) AS depth,
    false AS is_class, max(depth) = any_value(leaf_depth) AS is_leaf
  FROM framed GROUP BY ALL
  UNION ALL
  SELECT
    stack_id, n, regexp_extract(frame, '^(\\w+)[.]\\w+ [(]', 1) AS function, max(depth), true, false
  FROM framed GROUP BY ALL HAVING function <> ''
)
"""
_FUNCTION_SQL = f"""
{_SAMPLED_SQL}
SELECT function FROM around
-- A program is around all that it does: it is named for what it does outside of functions.
WHERE is_leaf OR NOT starts_with(function, '<module>') GROUP BY function, is_class
HAVING sum(n) >= greatest({_LEAST_SAMPLES}, {{most}} * (SELECT sum(n) FROM sampled))
ORDER BY is_class, sum(n * depth) / sum(n) DESC, function LIMIT 1
"""  # noqa: S608 - numbers of our own
_WITHIN_SQL = f"""
{_SAMPLED_SQL}
SELECT sum(n) >= {_MOST_OF_SAMPLES} * (SELECT sum(n) FROM sampled) FROM around
WHERE function = '{{function}}'
"""  # noqa: S608 - numbers of our own
# Whose cause is a thread that can be named: one of another process by the name of that. Of who
# sleeps the process is named already.
_BY_HOLDER = frozenset({"lock_contention", "thread_bound", "timer_sleep"})
_HOLDER_SQL = """
SELECT CASE
  WHEN l.code = 'timer_sleep' AND (
    t.thread_id IN (SELECT thread_id FROM iteration)
    OR t.process_id NOT IN (SELECT process_id FROM iteration)
  ) THEN NULL
  WHEN t.process_id IN (SELECT process_id FROM iteration)
    THEN 'thread ' || coalesce(t.python_name, t.name)
  ELSE coalesce(p.python_name, p.name) || ' (pid ' || p.pid || ')'
END
FROM limit_piece AS l
JOIN thread AS t ON t.thread_id = l.thread_id
JOIN process AS p ON p.process_id = t.process_id
WHERE l.code = '{code}' AND l.cause <> 'lock'
  AND l.iteration_id IN (SELECT iteration_id FROM _steady_iteration)
GROUP BY 1, t.thread_id ORDER BY sum(l.duration_ns) DESC, t.thread_id LIMIT 1
"""
# Of which causes the time of the one function is.
_CAUSES_SQL = """
SELECT function, code, sum(time_ns) / (SELECT sum(time_ns) FROM _steady_iteration) AS share
FROM limit_function GROUP BY function, code ORDER BY share DESC, code
"""
# Which CPUs the thread ran on that waits most for one, and how much of the time each CPU had a
# thread of the program.
_CPUS_SQL = """
WITH span AS (
  SELECT min(start_ns) AS from_ns, max(end_ns) AS to_ns FROM iteration
  WHERE iteration_id IN (SELECT iteration_id FROM _steady_iteration)
), waits AS (
  SELECT thread_id FROM limit_piece
  WHERE code = '{code}' AND iteration_id IN (SELECT iteration_id FROM _steady_iteration)
  GROUP BY thread_id ORDER BY sum(duration_ns) DESC, thread_id LIMIT 1
)
SELECT
  s.cpu,
  sum(least(s.end_ns, n.to_ns) - greatest(s.start_ns, n.from_ns)) / any_value(n.to_ns - n.from_ns),
  count(*) FILTER (WHERE s.thread_id IN (FROM waits))
FROM thread_state AS s, span AS n
WHERE s.state = 'running' AND s.cpu IS NOT NULL AND s.start_ns < n.to_ns AND s.end_ns > n.from_ns
GROUP BY s.cpu
"""
# For which part of these waits fewer threads of the program ran than it has CPUs, by the middle of
# each wait.
_IDLE_SQL = """
WITH span AS (
  SELECT min(start_ns) AS from_ns, max(end_ns) AS to_ns FROM iteration
  WHERE iteration_id IN (SELECT iteration_id FROM _steady_iteration)
), ran AS (
  SELECT s.start_ns, s.end_ns FROM thread_state_coded AS s, span AS n
  WHERE s.state = 'running' AND s.start_ns < n.to_ns AND s.end_ns > n.from_ns
), busy AS (
  SELECT ts_ns, sum(sum(more)) OVER (ORDER BY ts_ns) AS cpus FROM (
    SELECT start_ns AS ts_ns, 1 AS more FROM ran UNION ALL SELECT end_ns, -1 FROM ran
  ) GROUP BY ts_ns
)
SELECT sum(CASE WHEN b.cpus < {cpus} THEN l.duration_ns ELSE 0 END) / sum(l.duration_ns)
FROM (
  SELECT duration_ns, start_ns + duration_ns // 2 AS ts_ns FROM limit_piece
  WHERE code = '{code}' AND iteration_id IN (SELECT iteration_id FROM _steady_iteration)
) AS l
ASOF JOIN busy AS b ON b.ts_ns <= l.ts_ns
"""
# The OS kernel moves a thread that waits to a CPU that is idle, unless it must not.
_LEAST_RUNS, _LEAST_BUSY, _MOST_IDLE = 20, 0.8, 0.5


def where_of(trace: Trace, row: dict[str, Any]) -> dict[str, Any]:
    """Return where a row of `finding` holds: what the words of its limit may ask for."""
    code = row["code"]
    where = {"process_id": row["process_id"], "pid": row["pid"], "process": row["name"]}
    if not BY_CODE[code].is_of_lead:
        where["others"] = _first(trace, _OTHERS_SQL.format(code=code)) or 0
    if code == "cpu_taken_by_others":
        where["by_program"] = _first(trace, _OTHER_PROGRAM_SQL)
    if code == "cpu_contention":
        where["only_cpu"] = _only_cpu(trace, code)
        cpus = len(allowed_cpus(trace.connection))
        where["idle_share"] = _first(trace, _IDLE_SQL.format(code=code, cpus=cpus))
    if code in _BY_HOLDER:
        where["by_holder"] = _first(trace, _HOLDER_SQL.format(code=code))
    if code == "one_function":
        rows = list(run_query(trace, _CAUSES_SQL).rows)
        where["by_function"] = rows[0][0]
        where["causes"] = [{"code": cause, "share": share} for _, cause, share in rows]
    if code in _BY_FUNCTION | _OF_PHASE:
        most = _HALF_OF_SAMPLES if code in _OF_PHASE else _MOST_OF_SAMPLES
        function = _first(trace, _FUNCTION_SQL.format(code=code, most=most))
        where["by_function"] = function
        if function is not None and code in _HALVES:
            where["other_half"] = _other_half(trace, _HALVES[code], function)
    return where


def _other_half(trace: Trace, code: str, function: str) -> str | None:
    """Return the code where it is mostly about the function, too."""
    quoted = function.replace("'", "''")
    is_within = _first(trace, _WITHIN_SQL.format(code=code, function=quoted))
    return code if is_within else None


def _first(trace: Trace, query: str) -> Any:  # noqa: ANN401 - what the query asks for
    return next((value for (value,) in run_query(trace, query).rows), None)


def _only_cpu(trace: Trace, code: str) -> dict[str, Any] | None:
    """Return the only CPU that a waiting thread ran on, and the most idle one that it might use.

    None: it ran on several, or no other one was idle for most of the time.
    """
    rows = list(run_query(trace, _CPUS_SQL.format(code=code)).rows)
    used = [(cpu, busy, runs) for cpu, busy, runs in rows if runs]
    busy_of = {cpu: busy for cpu, busy, _ in rows}
    others = {cpu: busy_of.get(cpu, 0.0) for cpu in allowed_cpus(trace.connection)}
    if len(used) != 1 or used[0][0] not in others or len(others) == 1:
        return None
    cpu, busy, runs = used[0]
    idle = min((other for other in others if other != cpu), key=lambda other: others[other])
    if runs < _LEAST_RUNS or busy < _LEAST_BUSY or others[idle] > _MOST_IDLE:
        return None
    return {"cpu": cpu, "idle_cpu": idle, "idle_share": 1 - others[idle]}
