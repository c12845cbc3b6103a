"""Holds a calibration to a short second one: whether the machine is as it was then."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rlscope_analysis.schema.facts.qualities import OK, quality
from rlscope_analysis.schema.vocabulary import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.schema.facts.qualities import Quality
    from rlscope_trace.spool.costs import Cost

# How far the second one, which is short, may lie from the interval of the first.
_FACTOR = 1.5
# What the OS kernel accounts for is steadier than what a loop of so few takes longer.
_BY_PROGRAM = ("switch", "wakeup")


class _Total(NamedTuple):
    """Both parts of a cost together, in ns."""

    mean_ns: float
    low_ns: float
    high_ns: float


_Way = tuple[str, str, str]


def doubted(known: Sequence[Cost], *others: Sequence[Cost]) -> list[Cost]:
    """Return the known costs; those that all of the other measurements contradict say so.

    others: one at least; of fewer ways to probe, and without intervals, as a rule.
    """
    totals, *again = map(_totals, (known, *others))
    reasons = {
        way: _doubt(total, again[-1][way], way[1])
        for way, total in totals.items()
        if all(way in other and _contradicts(total, other[way]) for other in again)
    }
    return [
        replace(cost, quality=reasons[_way(cost)])
        if cost.mean_ns is not None and _way(cost) in reasons
        else cost
        for cost in known
    ]


def contradicted(costs: Sequence[Cost]) -> list[str]:
    """Return the events whose costs say that they are to be doubted."""
    return list(dict.fromkeys(c.event for c in costs if c.quality.is_doubtful))


def lacking(known: Sequence[Cost], again: Sequence[Cost]) -> tuple[str, Quality] | None:
    """Return which event was not measured again in all of its ways, and why; None: none."""
    ways, found = set(_totals(known)), set(_totals(again))
    measured = {(event, how) for event, _, how in found}
    events = {event for event, _, _ in found}
    for event, method, how in sorted(ways - found):
        # Other ways to probe or capture are not part of it. The Python package nvtx may be beside
        # one installation, and not beside the other.
        is_part = (event, how) in measured or event not in events
        if is_part and event != "range_python":
            reasons = (
                cost.quality for cost in again if cost.event == event and cost.quality.grade != OK
            )
            return event, next(reasons, quality("failed", detail=method))
    return None


def _way(cost: Cost) -> _Way:
    return cost.event, cost.method, cost.how


def _totals(costs: Sequence[Cost]) -> dict[_Way, _Total]:
    parts: dict[_Way, list[_Total]] = defaultdict(list)
    for cost in costs:
        is_told = cost.method == "program" or cost.event not in _BY_PROGRAM
        if cost.event in EVENTS and is_told and cost.mean_ns is not None:
            low_ns = cost.mean_ns if cost.low_ns is None else cost.low_ns
            high_ns = cost.mean_ns if cost.high_ns is None else cost.high_ns
            parts[_way(cost)].append(_Total(cost.mean_ns, low_ns, high_ns))
    return {
        way: _Total(*(sum(ends) for ends in zip(*totals, strict=True)))
        for way, totals in parts.items()
    }


def _contradicts(known: _Total, again: _Total) -> bool:
    return not known.low_ns / _FACTOR <= again.mean_ns <= known.high_ns * _FACTOR


def _doubt(known: _Total, again: _Total, method: str) -> Quality:
    if method == "micro":
        return quality("measured_again", known.mean_ns, again.mean_ns)
    return quality("measured_again_otherwise", known.mean_ns, again.mean_ns, subject=method)
