"""Two runs of a program that are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlscope_trace.record.validate.runs import Run
    from rlscope_trace.record.validate.trace_figures import TraceFigures


@dataclass(frozen=True, slots=True)
class Pair:
    """An untraced and a traced run, one right after the other."""

    untraced: Run
    traced: Run
    trace: TraceFigures
    traced_first: bool

    @property
    def corrected_ns(self) -> float:
        """Return the CPU time of the traced run without the overhead that its trace tells of."""
        return self.traced.cpu_ns - self.trace.overhead_ns

    @property
    def corrected_interval_ns(self) -> tuple[float, float]:
        """Return its interval: that of the overhead."""
        low_ns, high_ns = self.trace.interval_ns
        return self.traced.cpu_ns - high_ns, self.traced.cpu_ns - low_ns
