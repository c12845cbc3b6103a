"""Two operations of the leading thread at the same time: the second one on a thread of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.errors import TraceError
from rlscope_analysis.whatif.program import FIRE, RUN, SLEEP, WAIT
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    import numpy.typing as npt

    from rlscope_analysis.whatif.program import Program
    from rlscope_analysis.whatif.read import Recorded

    Column = npt.NDArray[Any]


def overlapped(first: str, second: str, recorded: Recorded, program: Program) -> Program:
    """Return a program in which both happen at the same time, in each iteration.

    From the first of either in an iteration on to the last, the second operation has a thread of
    its own, and a CPU if there is one. Raises TraceError where the leading thread has not both, or
    where one lies in the other.
    """
    lead = program.thread_id == recorded.lead_thread_id
    path = _filled(program)
    mine = [lead & np.isin(path, recorded.paths_of.get(name, [])) for name in (first, second)]
    for name, rows in zip((first, second), mine, strict=True):
        if not rows.any():
            raise TraceError(
                f"cannot be answered: the leading thread does nothing in {printable(name)!r}",
                hint="rlscope-trace summarize TRACE --by operation",
            )
    if (mine[0] & mine[1]).any():
        raise TraceError(
            f"cannot be answered: {printable(first)!r} and {printable(second)!r} lie in each other",
            hint="rlscope-trace summarize TRACE --by operation",
        )
    round_of = np.searchsorted(recorded.iteration_starts_ns, program.ts_ns, side="right")
    both = np.flatnonzero(mine[0] | mine[1])
    rounds = [
        part[[0, -1]] for part in np.split(both, np.flatnonzero(np.diff(round_of[both])) + 1)
        if mine[0][part].any() and mine[1][part].any()
    ]  # fmt: skip
    moved = np.zeros(len(path), dtype=bool)
    for begin, end in rounds:
        moved[begin : end + 1] = mine[1][begin : end + 1]
    return _moved(program, moved, np.array(rounds, dtype=np.int64).reshape(-1, 2), recorded)


def _filled(program: Program) -> Column:
    """Return the stack of each item; launches and waits have that of the item before them."""
    known = (program.kind == RUN) | (program.kind == SLEEP)
    known[program.first_item[:-1]] = True
    return program.path_id[np.maximum.accumulate(np.where(known, np.arange(len(known)), 0))]


def _moved(program: Program, moved: Column, rounds: Column, recorded: Recorded) -> Program:
    """Put items on a thread of their own, which begins and ends with the rounds."""
    count, size, other = len(rounds), len(program.kind), int(program.life.max()) + 1
    begin, end = rounds[:, 0], rounds[:, 1]
    fork, join = program.events + np.arange(count), program.events + count + np.arange(count)
    lead = np.full(count, recorded.lead_thread_id)
    more = np.r_[lead, lead, [other] * 2 * count]
    # Where each item stands: before (0), at (1) or after (2) an item of the program.
    life = np.r_[np.where(moved, other, program.life), more]
    at = np.r_[np.arange(size), begin, end, begin, end]
    order = np.lexsort((np.repeat([1, 0, 2, 0, 2], [size, *[count] * 4]), at, life))
    cpus = max(program.cpus, min(2, recorded.allowed_cpus))
    busy = np.bincount(program.cpu[(program.thread_id == recorded.lead_thread_id)
                                   & (program.kind == RUN)], minlength=cpus)  # fmt: skip
    cpu = np.where(moved, int(np.argmin(busy[:cpus])), program.cpu).astype(program.cpu.dtype)
    thread = np.where(moved, other, program.thread_id)
    return replace(program, thread_id=thread, cpu=cpu, cpus=cpus).with_items(
        order, life[order], kind=np.repeat([FIRE, WAIT, WAIT, FIRE], count),
        event=np.r_[fork, join, fork, join], thread_id=more,
    )  # fmt: skip
