"""Medians and where they truly lie: no assumption on how the values are spread."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median with the interval that holds the true one with 95 % confidence or more."""

    median: float
    low: float | None
    """None, as `high`: too few values for an interval (less than six)."""
    high: float | None
    n: int


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return the median of the values and its interval; None: there are no values."""
    if not values:
        return None
    low, high = median_interval(values) or (None, None)
    return Estimate(statistics.median(values), low, high, len(values))


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return where the true median lies with 95 % confidence or more; None: too few values.

    The order statistics of the sign test: no assumption on how the values are spread.
    """
    ordered = sorted(values)
    count = len(ordered)
    outside = 0.0
    below = 0
    ways = 1
    for index in range(count):
        # Chance that the median is below the value at `index`, from both ends.
        outside += 2 * ways / 2**count
        if outside > 0.05:
            break
        below = index + 1
        ways = ways * (count - index) // (index + 1)
    return (ordered[below - 1], ordered[count - below]) if below else None
