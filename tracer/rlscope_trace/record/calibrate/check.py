"""Holds a calibration to a short second one: whether the machine is as it was then.

A short measurement of one event may be off by two on a machine that is busy; the middle one of all
of them is not.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.qualities import quality
from rlscope_analysis.schema.vocabulary import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.spool.costs import Cost

# How many times as large or small the costs may be now, on the whole.
_FACTOR = 1.5

_Way = tuple[str, str]


def factor(known: Sequence[Cost], again: Sequence[Cost]) -> float | None:
    """Return how many times what is known the costs are, measured again: the middle of all events.

    None: of less than half of the events there is a cost again.
    """
    before, now = _totals(known), _totals(again)
    both = [way for way in before if way in now and before[way] > 0]
    if not both or 2 * len({event for event, _ in both}) < len({event for event, _ in before}):
        return None
    return statistics.median(now[way] / before[way] for way in both)


def is_contradicted(times: float) -> bool:
    """Tell whether such a factor contradicts a calibration."""
    return not 1 / _FACTOR <= times <= _FACTOR


def doubted(known: Sequence[Cost], again: Sequence[Cost]) -> list[Cost]:
    """Return the known costs, of which those say what contradicts them that were measured again."""
    before, now = _totals(known), _totals(again)
    return [
        replace(cost, quality=quality("measured_again", before[way], now[way]))
        if (way := (cost.event, cost.how)) in now and way in before and cost.mean_ns is not None
        else cost
        for cost in known
    ]


def contradicted(costs: Sequence[Cost]) -> list[str]:
    """Return the events whose costs say that they are to be doubted."""
    return list(dict.fromkeys(c.event for c in costs if c.quality.is_doubtful))


def _totals(costs: Sequence[Cost]) -> dict[_Way, float]:
    """Return the cost of both parts together, by event and way of probing or capturing."""
    totals: dict[_Way, float] = defaultdict(float)
    for cost in costs:
        if cost.event in EVENTS and cost.mean_ns is not None:
            totals[cost.event, cost.how] += cost.mean_ns
    return totals
