"""From pairs of runs to figures: what tracing added, and what the correction leaves of it."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.record.medians import Estimate, estimate
from rlscope_trace.record.validate.per_operation import missing_operations, timed_overhead_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlscope_trace.record.validate.pairs import Pair

# How many times the median deviation of other values the interval reaches that holds 95 % of
# values, from so many others on: simulated, for a normal spread.
_REACH = {
    4: 8.37, 5: 7.91, 6: 5.69, 7: 5.44, 8: 4.67, 9: 4.60, 10: 4.22, 12: 3.92, 16: 3.63, 30: 3.30,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figures:
    """Percentages, as medians of the ratios of pairs with their sign-test intervals."""

    inflation: Estimate
    """CPU time traced / untraced - 1."""
    bias: Estimate
    """CPU time corrected / untraced - 1."""
    overhead: Estimate
    """Overhead as the traces tell it, of the untraced CPU time."""
    wall_inflation: Estimate
    wall_bias: Estimate
    timed_inflation: Estimate | None
    """As inflation, of the time that the program's timers cover; None: it has none."""
    timed_bias: Estimate | None
    """None also where an operation with a timer is not in every trace."""
    noise: Estimate | None
    """How far two neighbouring untraced runs differ; None: there is one only."""
    covered: int | None
    """Pairs whose untraced CPU time lies in the interval of the corrected one, noise included;
    None: there are less than five, too few to tell the noise."""
    covered_by_costs: int
    """The same with the interval of the costs alone: as if runs were all alike."""


def compare(pairs: Sequence[Pair]) -> Figures:
    """Return the figures of one pair or more."""
    differences = neighbour_differences([pair.untraced.cpu_ns for pair in pairs])
    noises = noise_halves([pair.traced.cpu_ns / pair.untraced.cpu_ns for pair in pairs])

    def percent(value: Callable[[Pair], float]) -> Estimate:
        found = estimate([100 * value(pair) for pair in pairs])
        if found is None:
            raise ValueError("no pairs to compare")
        return found

    return Figures(
        inflation=percent(lambda pair: pair.traced.cpu_ns / pair.untraced.cpu_ns - 1),
        bias=percent(lambda pair: pair.corrected_ns / pair.untraced.cpu_ns - 1),
        overhead=percent(lambda pair: pair.trace.overhead_ns / pair.untraced.cpu_ns),
        wall_inflation=percent(lambda pair: _wall_ratio(pair, 0)),
        wall_bias=percent(lambda pair: _wall_ratio(pair, pair.trace.wall_overhead_ns)),
        timed_inflation=estimate([100 * _timed_ratio(p, 0) for p in pairs if p.untraced.timed_ns]),
        timed_bias=estimate(
            [100 * _timed_ratio(p, timed_overhead_ns(p)) for p in pairs if p.untraced.timed_ns]
            if not missing_operations(pairs)
            else []
        ),
        noise=estimate([100 * abs(value) for value in differences if len(pairs) > 1]),
        covered=(
            sum(_covers(pair, noise) for pair, noise in zip(pairs, noises, strict=True))
            if noises
            else None
        ),
        covered_by_costs=sum(_covers(pair, 0.0) for pair in pairs),
    )


def _wall_ratio(pair: Pair, overhead_ns: float) -> float:
    return (pair.traced.wall_ns - overhead_ns) / pair.untraced.wall_ns - 1


def _timed_ratio(pair: Pair, overhead_ns: float) -> float:
    return (pair.traced.timed_ns - overhead_ns) / pair.untraced.timed_ns - 1


def neighbour_differences(values: Sequence[float]) -> list[float]:
    """Return by how much of itself each value differs from the next: an A/A control."""
    return [first / second - 1 for first, second in itertools.pairwise(values)]


def from_median(values: Sequence[float]) -> list[float]:
    """Return how far each value is from the median of all: the scatter, without what is common."""
    middle = statistics.median(values)
    return [value - middle for value in values]


def noise_halves(ratios: Sequence[float]) -> list[float]:
    """Return, per pair, half the width of the 95 % interval that the scatter of the others gives.

    ratios: traced / untraced, which no correction has touched. A pair has no say in the interval
    that it is judged by, a wild one widens nobody's, and what all have in common, a bias, is no
    scatter. Empty for less than five pairs.
    """
    reach = [reach for others, reach in _REACH.items() if others < len(ratios)]
    if not reach:
        return []
    return [
        reach[-1] * _median_deviation([*ratios[:index], *ratios[index + 1 :]])
        for index in range(len(ratios))
    ]


def _median_deviation(values: Sequence[float]) -> float:
    return statistics.median(abs(value) for value in from_median(values))


def _covers(pair: Pair, noise: float) -> bool:
    """Tell whether the truth lies in the interval; noise: half its width, of the untraced time."""
    low_ns, high_ns = pair.corrected_interval_ns
    noise_ns = noise * pair.untraced.cpu_ns
    below_ns = math.hypot(pair.corrected_ns - low_ns, noise_ns)
    above_ns = math.hypot(high_ns - pair.corrected_ns, noise_ns)
    return pair.corrected_ns - below_ns <= pair.untraced.cpu_ns <= pair.corrected_ns + above_ns
