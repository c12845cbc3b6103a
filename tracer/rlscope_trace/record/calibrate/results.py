"""Measurements by event, and the rows they become."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.qualities import GOOD, Quality, quality
from rlscope_trace.record.calibrate.estimate import Estimate, estimate, split
from rlscope_trace.spool.costs import Cost

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTSIDE = "outside"
INSIDE = "inside"
NEVER = quality("never_succeeded")
# An interval wider than this part of the estimate is worth a warning.
_WIDE = 0.5


@dataclass
class Values:
    """What was measured so far, in ns per event: one value per measurement."""

    _whole: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    _plain: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    _parts: dict[tuple[str, str], tuple[list[float], list[float]]] = field(default_factory=dict)

    def add(self, event: str, how: str, value_ns: float) -> None:
        """Add a cost that lies outside of what the event measures, if it measures anything."""
        self._plain.setdefault((event, how), []).append(value_ns)

    def add_whole(self, event: str, how: str, value_ns: float) -> None:
        """Add a cost of which nobody can tell how much lies inside of what the event measures."""
        self._whole.setdefault((event, how), []).append(value_ns)

    def add_split(self, event: str, how: str, total_ns: float, inside_ns: float) -> None:
        """Add a cost of which a part lies inside the interval that the event measures."""
        totals, insides = self._parts.setdefault((event, how), ([], []))
        totals.append(total_ns)
        insides.append(inside_ns)

    def costs(self) -> list[Cost]:
        """Return the rows of all that was measured."""
        rows = [
            _row(event, OUTSIDE, how, estimate(values))
            for (event, how), values in self._plain.items()
        ]
        rows += [
            _row(event, None, how, estimate(values)) for (event, how), values in self._whole.items()
        ]
        for (event, how), (totals, insides) in self._parts.items():
            rows += _split_rows(event, how, totals, insides)
        return rows


def missing(event: str, why: Quality, how: str = "") -> Cost:
    """Return the row of an event that could not be measured."""
    return Cost(event, None, how, quality=why)


def failed(words: str) -> Quality:
    """Return why an event has no cost: what the OS, a driver or a loop said."""
    return quality("failed", detail=words)


def _split_rows(
    event: str, how: str, totals: Sequence[float], insides: Sequence[float]
) -> list[Cost]:
    parts = split(totals, insides)
    if parts is None:
        return [missing(event, NEVER, how)]
    return [
        _row(event, part, how, made) for part, made in zip((INSIDE, OUTSIDE), parts, strict=True)
    ]


def _row(event: str, part: str | None, how: str, made: Estimate | None) -> Cost:
    if made is None:
        return missing(event, NEVER, how)
    return Cost(
        event, part, how, made.mean_ns, made.stddev_ns, made.n, made.low_ns, made.high_ns,
        quality_of(made),
    )  # fmt: skip


def quality_of(made: Estimate) -> Quality:
    """Return what is wrong with an estimate, if anything is."""
    if made.low_ns is None or made.high_ns is None:
        return quality("few_measurements", made.n)
    if made.low_ns <= 0 <= made.high_ns:
        return quality("zero")
    if made.high_ns - made.low_ns > _WIDE * abs(made.mean_ns):
        return quality("wide")
    return GOOD
