"""A cost in nanoseconds with its interval, and how costs are reported: rows of calibration."""

from __future__ import annotations

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
