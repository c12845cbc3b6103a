"""From repeated measurements on a machine that is never quiet to an estimate with an interval.

A measurement is many short turns with what is measured and as many without, in turn. What disturbs
a turn (an interrupt, another program's caches) only ever makes it longer: so the lower quartiles
are compared, which stay where they are when half of the turns are disturbed. An estimate is the
median of such measurements, which lie seconds apart.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.record.medians import median_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

# That of a normal distribution, as a multiple of the median distance from its median.
_STDDEV_OF_MAD = 1.4826


@dataclass(frozen=True, slots=True)
class Estimate:
    """What repeated measurements say of one quantity, in ns."""

    mean_ns: float
    stddev_ns: float
    """Of single measurements; robust, so that a few disturbed ones do not decide it."""
    n: int
    low_ns: float | None
    """Start of the interval that holds the truth with 95 % confidence; None: too few values."""
    high_ns: float | None


def calm(turns: Sequence[float]) -> float:
    """Return what a turn takes that nothing disturbs: the lower quartile."""
    ordered = sorted(turns)
    place = (len(ordered) - 1) / 4
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def added(with_it: Sequence[float], without: Sequence[float]) -> float:
    """Return by how much longer undisturbed turns are with what is measured."""
    return calm(with_it) - calm(without)


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return what the values say; None where there are none."""
    if not values:
        return None
    middle = statistics.median(values)
    spread = _STDDEV_OF_MAD * statistics.median(abs(value - middle) for value in values)
    low, high = median_interval(values) or (None, None)
    return Estimate(middle, spread, len(values), low, high)


def split(totals: Sequence[float], insides: Sequence[float]) -> tuple[Estimate, Estimate] | None:
    """Return the parts inside and outside of a total; their means add up to its estimate.

    The values at one index are of one measurement.
    """
    total, inside = estimate(totals), estimate(insides)
    rest = estimate([whole - part for whole, part in zip(totals, insides, strict=True)])
    if total is None or inside is None or rest is None:
        return None
    # The median of differences is not the difference of medians: what is left goes outside.
    shift = total.mean_ns - inside.mean_ns - rest.mean_ns
    return inside, Estimate(
        rest.mean_ns + shift,
        rest.stddev_ns,
        rest.n,
        None if rest.low_ns is None else rest.low_ns + min(shift, 0.0),
        None if rest.high_ns is None else rest.high_ns + max(shift, 0.0),
    )
