"""A figure: what was measured, next to what it may be."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from rlscope_trace.record.medians import median_interval


class BenchError(Exception):
    """A measurement that could not be made; `hint` is a command or an action."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity: the median of its values is held against the budget."""

    name: str
    unit: str
    values: tuple[float, ...]
    budget: float | None = None
    """None: reported, but not judged."""
    at_least: bool = False
    """The budget is a floor, as for rows per second; else a ceiling."""
    note: str = ""
    either_way: bool = False
    """The values are errors: the budget is for the size of their median."""

    @property
    def median(self) -> float:
        """Return what is judged."""
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """Return `ok`, `over`, `under`, or `-` where there is no budget; `?`: it may be chance."""
        if self.budget is None:
            return "-"
        doubt = "?" if self._is_doubtful(self.budget) else ""
        if not self.is_missed:
            return f"ok{doubt}"
        return f"{'under' if self.at_least else 'over'}{doubt}"

    @property
    def is_missed(self) -> bool:
        """Tell whether there is a budget and it is not kept."""
        if self.budget is None:
            return False
        value = abs(self.median) if self.either_way else self.median
        return value < self.budget if self.at_least else value > self.budget

    def _is_doubtful(self, budget: float) -> bool:
        interval = median_interval(self.values)
        bounds = (-budget, budget) if self.either_way else (budget,)
        return interval is not None and any(interval[0] <= b <= interval[1] for b in bounds)

    def line(self) -> str:
        """Return the figure as one line of the table."""
        return (
            f"{self.name:<34} {short(self.median):>10} {self.unit:<16} {self._range():<30}"
            f" {self._interval():<20} {self._limit():<12} {self.verdict}"
        )

    def as_json(self) -> dict[str, object]:
        """Return everything there is to know about it."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "min": min(self.values),
            "max": max(self.values),
            "median_interval": median_interval(self.values),
            "values": list(self.values),
            "budget": self.budget,
            "verdict": self.verdict,
            "note": self.note,
        }

    def _range(self) -> str:
        if len(self.values) == 1:
            return "1 value"
        return f"{short(min(self.values))} .. {short(max(self.values))}, {len(self.values)}"

    def _interval(self) -> str:
        interval = median_interval(self.values)
        return f"{short(interval[0])} .. {short(interval[1])}" if interval else ""

    def _limit(self) -> str:
        if self.budget is None:
            return ""
        sign = ">=" if self.at_least else "+-" if self.either_way else "<="
        return f"{sign} {short(self.budget)}"


def short(value: float) -> str:
    """Return a number with about four digits that count."""
    size = abs(value)
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 100 else f"{value:.2f}" if size >= 1 else f"{value:.3f}"
