"""A cost in nanoseconds with its interval, and how costs are told: rows of table calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rlscope_analysis.schema.facts.qualities import GOOD, Quality

Z = 1.959964


@dataclass(frozen=True, slots=True)
class Cost:
    """A row of table calibration; times in ns."""

    event: str
    part: str | None
    method: str
    mean_ns: float | None = None
    stddev_ns: float | None = None
    n: int = 0
    low_ns: float | None = None
    high_ns: float | None = None
    used: bool = False
    quality: Quality = GOOD

    @property
    def row(self) -> tuple[Any, ...]:
        """All columns of calibration."""
        return (
            self.event, self.part, self.method, self.mean_ns, self.stddev_ns, self.n, self.low_ns,
            self.high_ns, self.used, *self.quality.columns,
        )  # fmt: skip

    @property
    def stderr_ns(self) -> float:
        """The standard error that the interval stands for; without one, half of the mean."""
        if self.low_ns is None or self.high_ns is None:
            return abs(self.mean_ns or 0.0) / 2
        return (self.high_ns - self.low_ns) / (2 * Z)


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, to 1 % from three degrees of freedom on."""
    # Expanded in 1 / freedom (Abramowitz and Stegun 26.7.5).
    one = (Z**3 + Z) / 4
    two = (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    three = (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384
    return Z + one / freedom + two / freedom**2 + three / freedom**3


def ratio(tops: list[float], bottoms: list[float]) -> tuple[float, float]:
    """Return sum(tops) / sum(bottoms) and its standard error, over pairs that are independent.

    At least two pairs, and the bottoms add up to more than 0.
    """
    n, whole = len(tops), sum(bottoms)
    value = sum(tops) / whole
    squares = sum((top - value * bottom) ** 2 for top, bottom in zip(tops, bottoms, strict=True))
    return value, math.sqrt(squares * n / (n - 1)) / whole
