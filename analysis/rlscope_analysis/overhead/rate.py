"""By how much a call is dearer among work that needs the caches: what its two loops tell.

A trap that finds nothing in the caches takes longer, and so does what it evicts. No account tells
of either, but the programs in the OS kernel, of which one does, find the same caches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.schema.vocabulary import EVENT_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.overhead.cost import Cost

# Traps into the OS kernel at an entry and at a return, all of them; the single step of a dear one,
# for which the virtual machine is left, does not depend on caches.
_BOTH_PARTS = ("call", "call_dear")
_ONE_PART = ("gil_release",)
WITH_RATES = (*_BOTH_PARTS, *_ONE_PART)
# The second loop tells nothing unless its program takes so many times as long as in the first, and
# by so many standard errors longer.
_LEAST_RATIO, _LEAST_SIGMAS = 1.2, 3.0
# The programs of entry and return take their stamps at once, or last of all: what both of them take
# longer is outside.
_LEAST_RATES = {"inside": 0.0, "outside": 2.0}


@dataclass(frozen=True, slots=True)
class Rate:
    """By how many ns a part of a call is dearer per ns that its program takes longer."""

    value: float
    stderr: float
    longer_ns: float
    """By how much the program took longer where that was measured."""


def rates_of_calls(rows: Iterable[Cost]) -> dict[str, Rate]:
    """Return the rates of both parts of a call; empty where the two loops do not tell them.

    rows: of the methods micro, program, crowded and crowded_program.
    """
    told = {
        (row.method, row.part): (row.mean_ns, row.stderr_ns)
        for row in rows
        if row.event == "call" and row.mean_ns is not None
    }
    calm, busy = told.get(("program", None)), told.get(("crowded_program", None))
    if calm is None or busy is None or busy[0] < _LEAST_RATIO * calm[0]:
        return {}
    longer_ns = busy[0] - calm[0]
    if longer_ns < _LEAST_SIGMAS * math.hypot(busy[1], calm[1]):
        return {}
    rates = {}
    for part in EVENT_PARTS:
        one, other = told.get(("micro", part)), told.get(("crowded", part))
        if one is None or other is None:
            return {}
        value = max((other[0] - one[0]) / longer_ns, _LEAST_RATES[part])
        error_ns = math.hypot(other[1], one[1], value * math.hypot(busy[1], calm[1]))
        rates[part] = Rate(value, error_ns / longer_ns, longer_ns)
    return rates


def rate_of(part: Cost, rates: dict[str, Rate]) -> Rate | None:
    """Return the rate of a part of any event; None: it has none.

    rates: of calls. An event of one part only has those of both parts together.
    """
    if not rates:
        return None
    if part.event in _BOTH_PARTS:
        return rates.get(part.part or "")
    if part.event not in _ONE_PART:
        return None
    both = list(rates.values())
    return Rate(
        sum(rate.value for rate in both), math.hypot(*(rate.stderr for rate in both)),
        both[0].longer_ns,
    )  # fmt: skip
