"""The critical path of a job on several machines.

It goes through the member that each iteration waits for, and while that one waits for others
itself, through the task whose end it waits for.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rlscope_analysis.fleet.stragglers import common_clock, known_rows, slowest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlscope_analysis.fleet.merge import Iteration, Merged, Task, Wait
    from rlscope_analysis.fleet.stragglers import Alignment, Offset

# A worker of Ray changes its title a little after it has sent the result of a task; and a thread
# that looks after its timers in between still waits for the same.
_LATE_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Held:
    """What held up the job in one member, while the others waited for it."""

    member: str
    task: str | None
    """What it ran for the member that leads; None: it is that one."""
    code: str
    iterations: int
    time_ns: int


class _Placed(NamedTuple):
    """A task on the clock of the job."""

    end_ns: int
    start_ns: int
    member: str
    task: Task


def job_path(
    whole: Merged, alignment: Alignment, offsets: Mapping[str, Offset] | None = None
) -> tuple[Held, ...]:
    """Return what held up the iterations that members share, or those of the only one that has any.

    They add up to how long these took. Iterations of which no limits are kept are left out.
    offsets: as `stragglers.align` takes them; without a clock no wait leads to another member.
    """
    clock = common_clock(whole, offsets)
    tasks = _tasks(whole, clock) if clock else []
    found: dict[tuple[str, str | None, str], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for at, (member, one) in enumerate(_ways(whole, alignment)):
        for code, time_ns in one.limits:
            found[member, None, code][at] += time_ns
        if clock is None or not one.limits:
            continue
        placed = [wait._replace(start_ns=clock[member](wait.start_ns)) for wait in one.waits]
        until_ns = clock[member](one.start_ns + one.time_ns)
        for wait, end_ns in _with_ends(placed):
            for other, task, code, time_ns in _instead(wait, end_ns, until_ns, member, tasks):
                found[member, None, wait.code][at] -= time_ns
                found[other, task, code][at] += time_ns
    held = (
        Held(*key, len(times), sum(times.values()))
        for key, all_times in found.items()
        if (times := {at: time_ns for at, time_ns in all_times.items() if time_ns})
    )
    return tuple(sorted(held, key=lambda one: (-one.time_ns, one.member, one.task or "", one.code)))


def _ways(whole: Merged, alignment: Alignment) -> Iterator[tuple[str, Iteration]]:
    """Yield each iteration of the job, in the member that it waits for."""
    if alignment.rows:
        for row in known_rows(alignment):
            member = slowest_of(row)
            yield member, row[member][0]
        return
    leading = [name for name, fact in whole.members.items() if fact.has_iterations]
    if len(leading) == 1 and len(whole.members) > 1:
        for one in whole.iterations.get(leading[0], ()):
            yield leading[0], one


def _tasks(whole: Merged, clock: Mapping[str, Offset]) -> list[_Placed]:
    return sorted(
        _Placed(clock[member](one.start_ns + one.time_ns), clock[member](one.start_ns), member, one)
        for member, tasks in whole.tasks.items()
        for one in tasks
    )


def _with_ends(waits: Sequence[Wait]) -> Iterator[tuple[Wait, int]]:
    """Yield each wait, in order, with the end of the last of those that follow each other."""
    ends: list[int] = []
    for wait, following in zip(reversed(waits), [None, *reversed(waits)], strict=False):
        end_ns = wait.start_ns + wait.time_ns
        goes_on = following is not None and following.start_ns <= end_ns + _LATE_NS
        ends.append(ends[-1] if goes_on else end_ns)
    return zip(waits, reversed(ends), strict=True)


def _instead(
    wait: Wait, end_ns: int, until_ns: int, member: str, tasks: Sequence[_Placed]
) -> Iterator[tuple[str, str, str, int]]:
    """Yield what the task did that waiting ended with, as long as this wait lasted as well.

    Where none ended, as where the waiting thread was held up for a while, the first to end after,
    until the iteration ends.
    Of a task of which that is a part, the same part of all that it did.
    """
    first, behind, last = (
        bisect.bisect_right(tasks, ns, key=lambda one: one.end_ns)
        for ns in (wait.start_ns, end_ns + _LATE_NS, until_ns + _LATE_NS)
    )
    in_turn = itertools.chain(reversed(tasks[first:behind]), tasks[behind:last])
    found = next((one for one in in_turn if one.member != member and one.task.time_ns), None)
    if found is None:
        return
    end, start, other, task = found
    shared = min(wait.start_ns + wait.time_ns, end) - max(wait.start_ns, start)
    for code, time_ns in task.limits if shared > 0 else ():
        yield other, task.name, code, time_ns * min(shared, task.time_ns) // task.time_ns
