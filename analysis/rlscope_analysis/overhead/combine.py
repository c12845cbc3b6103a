"""What is subtracted for each event: its cost in a loop, times what it takes more in a program.

A loop finds everything in the caches. In a program that holds for events that come close together;
one that comes alone has to fetch again what the program's work has replaced, and so has the program
after it. How many come alone the trace itself tells; how much more they take was measured once, in
training programs: docs/overhead.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rlscope_analysis.overhead.cost import Cost, Z
from rlscope_analysis.schema.facts.qualities import quality
from rlscope_analysis.schema.vocabulary import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlscope_analysis.schema.facts.qualities import Quality


class _Times(NamedTuple):
    """How many times what it takes in the loop, with the interval."""

    low: float
    mean: float
    high: float


# Right after another one of its kind.
_WARM = _Times(0.7, 1.0, 1.5)
# A program that switches all the time may switch less often for it, which saves as much again: down
# to nothing on the whole.
_WARM_SWITCHES = _Times(0.0, 1.0, 1.5)
_OF_SWITCHES = ("switch", "wakeup")
# Whether a thread that needs a lock finds it free is a matter of when it asks, and recording shifts
# that: each time one was handed over may stand for one more or one less without us. What that takes
# the program: two switches, two calls of futex, and caches.
_HAND_OVER_NS = 5_000
# After 0.1 ms and more of other work.
_COLD = {
    "switch": _Times(1.0, 2.0, 3.0),
    "wakeup": _Times(1.0, 2.0, 3.0),
    "call": _Times(2.0, 3.5, 5.0),
    "call_expensive": _Times(2.0, 3.5, 5.0),
    "sample": _Times(2.0, 3.0, 4.0),
    "gil_release": _Times(2.0, 3.5, 5.0),
}
# Recorded inside the process, by so few instructions that it makes no difference how they come.
_IN_PROCESS = _Times(0.5, 1.0, 2.5)
# Of these only as much depends on caches as of the other: for the single step a virtual machine is
# left, and that takes as long wherever it happens.
_CACHED_PART = {"call_expensive": "call"}
# Of another event, where its own loop could not be run: its Python package was not there.
_STAND_IN = {"range_python": "range"}


def combined(
    measured: Iterable[Cost],
    alone: Mapping[str, float],
    doubts: Mapping[str, Quality],
    handed_over: float = 0.0,
) -> list[Cost]:
    """Return the rows that are subtracted, for each event and part that has a cost in a loop.

    alone: by event, which part of them comes alone; 1 for those not in it. doubts: what contradicts
    the cost of an event. handed_over: which part of wakeups hand a lock from thread to thread.
    """
    rows: dict[tuple[str, str | None], Cost] = {
        (row.event, row.part): row
        for row in measured
        if row.method == "micro" and row.part and row.mean_ns is not None
    }
    found = []
    for event in EVENTS:
        doubt = doubts.get(event)
        for part in _parts(rows, event):
            cached: Cost | None = part
            if event in _CACHED_PART:
                cached = rows.get((_CACHED_PART[event], part.part))
            cached_ns = (cached.mean_ns or 0.0) if cached else 0.0
            cost = _scaled(part, cached_ns, _times(event, alone.get(event, 1.0)))
            if event == "wakeup":
                cost = _widened(cost, handed_over * _HAND_OVER_NS)
            found.append(replace(cost, quality=doubt) if doubt else cost)
    return found


def _parts(rows: Mapping[tuple[str, str | None], Cost], event: str) -> list[Cost]:
    """Return what a loop says of the parts of an event: its own, or that of what stands in."""
    if own := [row for row in rows.values() if row.event == event]:
        return own
    other = _STAND_IN.get(event, "")
    taken = quality("stand_in", subject=other)
    return [replace(row, event=event, quality=taken) for row in rows.values() if row.event == other]


def _times(event: str, alone: float) -> _Times:
    cold = _COLD.get(event)
    if cold is None:
        return _IN_PROCESS
    warm = _WARM_SWITCHES if event in _OF_SWITCHES else _WARM
    return _Times(*(far * alone + near * (1 - alone) for near, far in zip(warm, cold, strict=True)))


def _widened(cost: Cost, by_ns: float) -> Cost:
    assert cost.low_ns is not None
    assert cost.high_ns is not None
    return replace(cost, low_ns=cost.low_ns - by_ns, high_ns=cost.high_ns + by_ns)


def _scaled(part: Cost, cached_ns: float, times: _Times) -> Cost:
    """Return the cost of a part, of which so much depends on caches."""
    assert part.mean_ns is not None
    mean_ns = part.mean_ns + (times.mean - 1) * cached_ns
    error_ns = Z * part.stderr_ns * times.mean
    below_ns = math.hypot(error_ns, (times.mean - times.low) * cached_ns)
    above_ns = math.hypot(error_ns, (times.high - times.mean) * cached_ns)
    # An event costs nothing at least, where its loop does not say less itself.
    low_ns = max(mean_ns - below_ns, min(0.0, mean_ns))
    return replace(
        part, method="combined", mean_ns=mean_ns, stddev_ns=None, low_ns=low_ns,
        high_ns=mean_ns + above_ns, used=True,
    )  # fmt: skip
