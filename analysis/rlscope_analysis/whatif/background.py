"""What helpers do beside the training: it holds up whom it wakes, not what they do afterwards.

A thread that takes messages also wakes up by its own timers. A message that comes earlier than it
did is taken at once, whichever timer would have been the next. So these wake-ups, and what others
do because of them, get a list of items of their own, which begins where they stood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.whatif.program import FIRE, OPEN, ROBBED, RUN, SLEEP, WAIT

if TYPE_CHECKING:
    import numpy.typing as npt

    from rlscope_analysis.whatif.program import Program

    Column = npt.NDArray[Any]

# Who runs for so much of the time because of timers works by them: one thing after the other.
_LIGHT = 0.05


@dataclass(frozen=True, slots=True)
class _Parts:
    """Each thread cut where it goes to sleep: a part is the sleep and what follows it."""

    first: Column
    """The first item of each."""
    of_item: Column
    """The part of each item."""
    life: Column
    thread_id: Column
    is_plain: Column
    """Of a helper, and outside of operations."""

    def have(self, items: Column) -> Column:
        """Return which parts have one of these items."""
        found = np.zeros(len(self.first), dtype=bool)
        found[self.of_item[items]] = True
        return found


def background_apart(
    program: Program, lead_thread_id: int, duration_ns: float, *, has_pools: bool = False
) -> Program:
    """Return the program with what is done in the background on lists of its own.

    has_pools: another thread takes the message for one that sleeps and does not listen meanwhile.
    """
    parts = _parts(program, lead_thread_id)
    paths = (OPEN, 0) if has_pools else (OPEN,)
    begins = (program.kind == SLEEP) & np.isin(program.path_id, paths)
    aside = _woken_by(program, parts, parts.have(begins) & parts.is_plain)
    aside &= ~_works(program, parts, aside, duration_ns)
    # What follows has to wait for somebody: else the time until then would be missing.
    place = np.arange(len(aside))
    following = np.minimum.accumulate(np.where(aside, len(aside), place)[::-1])[::-1]
    known = np.minimum(following, len(aside) - 1)
    waits = program.kind[parts.first[known]] == WAIT
    aside &= (following < len(aside)) & (parts.life[known] == parts.life) & waits
    return _moved(program, parts, aside) if aside.any() else program


def _parts(program: Program, lead_thread_id: int) -> _Parts:
    begins = (program.kind == WAIT) | ((program.kind == SLEEP) & (program.path_id != ROBBED))
    begins[program.first_item[:-1]] = True
    first, of_item = np.flatnonzero(begins), np.cumsum(begins) - 1
    thread = program.thread_id[first]
    in_operation = np.zeros(len(first), dtype=bool)
    in_operation[of_item[(program.kind == RUN) & (program.path_id != 0)]] = True
    # Lists of a GPU have numbers below 0.
    is_plain = ~in_operation & (thread > 0) & (thread != lead_thread_id)
    return _Parts(first, of_item, program.life[first], thread, is_plain)


def _woken_by(program: Program, parts: _Parts, seeds: Column) -> Column:
    """Return these parts, and those of helpers that wait for something which one of them does."""
    waiting = np.full(program.events, -1, dtype=np.int64)
    waits = np.flatnonzero(program.kind == WAIT)
    waiting[program.event[waits]] = parts.of_item[waits]
    fires = np.flatnonzero(program.kind == FIRE)
    wakes = waiting[program.event[fires]]
    begin = np.searchsorted(parts.of_item[fires], np.arange(len(seeds) + 1))
    found, todo = seeds.copy(), np.flatnonzero(seeds).tolist()
    while todo:
        part = todo.pop()
        for other in wakes[begin[part] : begin[part + 1]].tolist():
            if other >= 0 and parts.is_plain[other] and not found[other]:
                found[other] = True
                todo.append(other)
    return found


def _works(program: Program, parts: _Parts, aside: Column, duration_ns: float) -> Column:
    """Return the parts of threads for which this is no small matter."""
    rows = (program.kind == RUN) & aside[parts.of_item]
    threads, place = np.unique(parts.thread_id, return_inverse=True)
    ran = np.bincount(place[parts.of_item[rows]], program.length_ns[rows], len(threads))
    works: Column = (ran > _LIGHT * duration_ns)[place]
    return works


def _moved(program: Program, parts: _Parts, aside: Column) -> Program:
    """Put parts in a row on a list of their own, which their thread sets off and leaves alone."""
    again = np.r_[False, aside[:-1] & (parts.life[1:] == parts.life[:-1])]
    heads = aside & ~again
    count, at = int(heads.sum()), parts.first[heads]
    lives = int(program.life.max()) + 1 + np.arange(count)
    moved, row = aside[parts.of_item], np.cumsum(heads)[parts.of_item] - 1
    life = np.r_[np.where(moved, lives[row], program.life), program.life[at], lives]
    place = np.r_[np.arange(len(moved)), at, at]
    order = np.lexsort((np.repeat([1, 0, 0], [len(moved), count, count]), place, life))
    off = program.events + np.arange(count)
    return program.with_items(
        order, life[order], kind=np.repeat([FIRE, WAIT], count), event=np.r_[off, off],
        thread_id=np.tile(program.thread_id[at], 2),
    )  # fmt: skip
