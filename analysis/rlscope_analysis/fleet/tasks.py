"""What the longest tasks of Ray did: so that other machines know what they waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema.enums import word_of
from rlscope_analysis.sweep.segments import make_segment_table, selection

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace

_CODES = {
    "simulation": "simulation_bound", "inference": "inference_bound", "rollout": "inference_bound",
    "backpropagation": "learner_bound", "optimizer": "learner_bound", "data": "data_bound",
}  # fmt: skip
"""What a phase is called that a leading process waits for; the rest is worker_bound."""

# Those of a thread follow each other: a process has one title at a time.
_TASKS_SQL = """
CREATE OR REPLACE TEMP TABLE _task AS
SELECT
  row_number() OVER (ORDER BY o.end_ns - o.start_ns DESC, o.thread_id, o.start_ns) AS number,
  o.thread_id, n.name, o.start_ns, o.end_ns
FROM operation_coded AS o JOIN operation_path AS n ON n.path_id = o.path_id
WHERE n.source = 'ray' AND o.end_ns > o.start_ns
QUALIFY number <= $tasks
"""
_INTERVALS_SQL = """
SELECT thread_id::INTEGER, start_ns::BIGINT, end_ns::BIGINT FROM _task ORDER BY thread_id, start_ns
"""
_COLUMNS = f"* REPLACE ({word_of('THREAD_STATE', 'state')} AS state)"
_PARTS_SQL = f"""
CREATE OR REPLACE TEMP TABLE _task_part AS
SELECT
  t.number,
  CASE
    WHEN s.state IN ('sleeping', 'blocked') THEN 'other_wait'
    WHEN s.state = 'runnable' THEN 'cpu_wait'
    WHEN s.state IS NULL THEN 'not_measured'
    {" ".join(f"WHEN p.phase = '{phase}' THEN '{code}'" for phase, code in _CODES.items())}
    ELSE 'worker_bound'
  END AS code,
  sum(s.end_ns - s.start_ns)::BIGINT AS time_ns
FROM _task_segment AS s
ASOF JOIN _task AS t ON t.thread_id = s.thread_id AND t.start_ns <= s.start_ns
LEFT JOIN _phase AS p ON p.path_id = s.path_id
GROUP BY t.number, code
"""  # noqa: S608 - words of our own


def add_tasks(trace: Trace, *, most: int) -> None:
    """Make _task, of the longest ones, and _task_part, what each did: as long as it took."""
    connection = trace.connection
    connection.execute(_TASKS_SQL, {"tasks": most})
    make_segment_table(trace, "_task_segment", selection(trace, _INTERVALS_SQL), columns=_COLUMNS)
    connection.execute(_PARTS_SQL)
    connection.execute("DROP TABLE _task_segment")
