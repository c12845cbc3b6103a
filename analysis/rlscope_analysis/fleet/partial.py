"""What is kept of one trace: sums, histograms and iterations, small enough to be sent about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from rlscope_analysis.critical_path.iterations import WHOLE
from rlscope_analysis.errors import UnknownRangeError
from rlscope_analysis.fleet.histogram import STEPS
from rlscope_analysis.fleet.tasks import add_tasks

if TYPE_CHECKING:
    from typing import Any

    from rlscope_analysis.trace import Trace

KINDS = (
    "process", "operation", "cause", "limit", "finding", "run_queue", "iteration_time",
    "iteration", "iteration_limit", "iteration_wait", "task", "task_limit",
)  # fmt: skip
GROUPS = 32
"""So many groups of processes, and operations, have rows of their own."""
ITERATIONS = 1000
"""Of so many the times are kept one by one; the histogram has all."""
LIMITS = 2000
"""So many rows tell what held up each iteration."""
WAITS = 200
"""So many waits of its iterations for other members are kept one by one, the longest."""
TASKS = 200
"""So many tasks of Ray are kept one by one, the longest."""

# One row of words, so that each may be missing; a range may be called anything.
_FACTS_SQL = """
SELECT
  (SELECT left(any_value(value), 80) FROM meta WHERE key = 'host'),
  (SELECT left(any_value(value), 80) FROM meta WHERE key = 'boot_id'),
  (SELECT left(any_value(value), 40) FROM meta WHERE key = 'recorder_starttime'),
  (SELECT left(any_value(value), 40) FROM meta WHERE key = 'recorder_pid'),
  (SELECT any_value(value) FROM meta WHERE key = 'ended_cleanly') IS DISTINCT FROM 'false',
  (SELECT count(*) FROM process), (SELECT count(*) FROM thread),
  (SELECT min(start_ns) FROM thread), (SELECT max(end_ns) FROM thread),
  (SELECT count(*) FROM iteration),
  (SELECT any_value(source) FROM iteration), (SELECT left(any_value(name), 80) FROM iteration)
"""


class Row(NamedTuple):
    """One row of a partial; which columns say something depends on its kind."""

    kind: str
    role: str | None
    """Of processes: learner, main, worker, other."""
    name: str | None
    """Of processes, an operation; a cause, a limit."""
    bucket: str | None
    number: int | None
    """Of a histogram: times of 2^(number/8) ns up to the next; of an iteration or task: which."""
    at_ns: int | None
    """When an iteration, a wait or a task began."""
    time_ns: int | None
    part_ns: int | None
    """With a GPU at work; of an iteration: waiting for others. None: not measured."""
    pieces: int | None
    """None: not known of what samples tell."""
    sampled_ns: int
    stderr_ns: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What a partial says of its trace."""

    host: str | None
    boot_id: str | None
    """Traces of one boot have one clock."""
    recorder_starttime: str | None
    recorder_pid: str | None
    is_complete: bool
    processes: int
    threads: int
    start_ns: int | None
    end_ns: int | None
    iterations: int
    source: str | None
    """As iteration.source; None: there are none."""
    per: str | None

    @property
    def is_whole(self) -> bool:
        """Whether there are no iterations, and the run counts as one."""
        return self.source == WHOLE

    @property
    def has_iterations(self) -> bool:
        """Whether there are iterations."""
        return self.source not in (None, WHOLE)


@dataclass(frozen=True, slots=True)
class Partial:
    """One trace, to be merged with others."""

    facts: Facts
    rows: tuple[Row, ...]


def partial_of(trace: Trace, *, per: str | None = None) -> Partial:
    """Work out the partial of an open trace.

    per: the range that counts as an iteration; where none is called so there are no iterations.
    """
    has_iterations = True
    try:
        trace.critical_path(per=per)
    except UnknownRangeError:
        has_iterations = False
        trace.critical_path()
    trace.provide("limit_time")
    add_tasks(trace, most=TASKS)
    asked: dict[str, Any] = {
        "groups": GROUPS, "iterations": ITERATIONS, "limits": LIMITS, "waits": WAITS,
        "steps": STEPS,
    }  # fmt: skip
    rows = trace.connection.execute(_rows_sql(), asked).fetchall()
    (facts,) = trace.connection.execute(_FACTS_SQL).fetchall()
    found = Partial(Facts(*facts), tuple(Row(*row) for row in rows))
    return found if has_iterations else _without_iterations(found)


def _without_iterations(partial: Partial) -> Partial:
    """Return it without the iterations that it has by other means than the range asked for."""
    rows = tuple(row for row in partial.rows if not row.kind.startswith("iteration"))
    facts = replace(partial.facts, iterations=0, source=WHOLE, per=None)
    return Partial(facts, rows)


@cache
def _rows_sql() -> str:
    return resources.files(__name__.rpartition(".")[0]).joinpath("partial.sql").read_text("utf-8")
