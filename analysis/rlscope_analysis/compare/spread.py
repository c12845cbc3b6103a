"""The noise model: what a difference is held against.

Several runs a side: a run is one value, its mean over the iterations that all runs have (Welch's
t-test). One run a side: how much runs differ is not known; a run is taken to differ from another at
least as much as its eighths do, of the differences of the same iterations of both. Iterations that
follow each other are alike, so they are not counted one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.compare.student import quantile, two_sided

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

RUNS, BLOCKS, NOTHING = "runs", "blocks", "nothing"
"""The units: see Units.kind."""
LEVEL = 0.95
_BLOCKS = 8
# One does not tell how much they differ; of two the interval is very wide.
_LEAST_BLOCKS = 2
# A warm-up is not longer than this part of a run.
_LONGEST_WARM_UP = 3
# Runs of one program differ by so much at least (standard deviation, as a part of the mean), which
# one run a side cannot show: memory is laid out anew, neighbours come and go.
_BETWEEN_RUNS = 0.05
# The iterations of a run that others disturbed least: this part of them, of so many at least.
_FASTEST_PART, _LEAST_FOR_FASTEST = 10, 20
# Clocks and rounding: less than this part of a value is no difference between units.
_RESOLUTION = 1e-9


@dataclass(frozen=True, slots=True)
class Units:
    """What is held against each other."""

    kind: str
    """runs; blocks of iterations, where there is one run a side; nothing: neither will do."""
    first: int
    """Iterations before this one are left out: warm-up. Counted from 0."""
    end: int
    """Those from this one on are left out: not every run has them."""
    base_runs: int
    new_runs: int
    blocks: int = 0

    @property
    def iterations(self) -> int:
        """How many iterations of each run are compared."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Difference:
    """NEW against BASE, per iteration; low and high are None where there is no interval."""

    base: float
    new: float
    low: float | None
    high: float | None
    probability: float | None
    """Of so large a difference, were there none; None: cannot be said."""

    @property
    def change(self) -> float:
        """By how much NEW is more."""
        return self.new - self.base

    @property
    def reach(self) -> float:
        """How wide the interval is, as a part of the larger value; 0 where there is none."""
        most = max(abs(self.base), abs(self.new))
        if self.low is None or self.high is None or not most:
            return 0.0
        return (self.high - self.low) / most


def warm_up(durations: Sequence[Values]) -> int:
    """Return how many iterations at the start are not like the rest, in any of the runs.

    Those whose removal makes the standard error of the mean smallest (MSER), at most a third.
    """
    return max((_warm_up(values) for values in durations), default=0)


def _warm_up(values: Values) -> int:
    most = len(values) // _LONGEST_WARM_UP
    # Of what follows each start; the mean is taken off, so that squares keep their digits.
    rest = (values - values.mean())[::-1] if len(values) else values
    counts = np.arange(1, len(values) + 1)
    spread = np.cumsum(rest**2) / counts - (np.cumsum(rest) / counts) ** 2
    # What rounding leaves of a spread of none may be below 0.
    errors = (np.maximum(spread, 0) / counts)[::-1][: most + 1].tolist()
    if not errors:
        return 0
    least = min(errors)
    # Less is chance; and so is which of the starts behind the first good one is best.
    if least >= 0.5 * errors[0]:
        return 0
    return next(start for start, error in enumerate(errors) if error <= 1.2 * least)


def units_of(base_runs: int, new_runs: int, first: int, end: int) -> Units:
    """Choose the units for so many runs that have the iterations [first, end) in common."""
    known = (first, end, base_runs, new_runs)
    if base_runs + new_runs > 2 and end > first:
        return Units(RUNS, *known)
    blocks = min(_BLOCKS, end - first)
    if base_runs == new_runs == 1 and blocks >= _LEAST_BLOCKS:
        return Units(BLOCKS, *known, blocks)
    return Units(NOTHING, *known)


def difference(  # noqa: PLR0913 - one parameter per source of doubt
    base: Sequence[Values],
    new: Sequence[Values],
    units: Units,
    *,
    level: float = LEVEL,
    doubt: float = 0.0,
    least_error: float = 0.0,
) -> Difference:
    """Hold the values per iteration of runs against each other: an array for each run.

    level: how often the interval holds the true difference. doubt: a standard error that the values
    have in common, as that of a factor; runs do not make it smaller. least_error: what the standard
    error is at least, however alike the runs are.
    """
    base_mean, new_mean = _mean_of_means(base), _mean_of_means(new)
    change = new_mean - base_mean
    if units.kind == NOTHING:
        probability = None if change else 1.0
        return Difference(base_mean, new_mean, None, None, probability)
    if units.kind == RUNS:
        error, freedom = _of_runs(base, new)
    else:
        error, freedom = _of_blocks(base[0], new[0], units)
    if error <= _RESOLUTION * max(abs(base_mean), abs(new_mean)):
        error = 0.0
    error = math.hypot(max(error, least_error), doubt)
    reach = quantile(level, freedom) * error
    times = change / error if error else math.inf
    probability = two_sided(times, freedom) if change else 1.0
    return Difference(base_mean, new_mean, change - reach, change + reach, probability)


def between_runs(base: Sequence[Values], new: Sequence[Values], units: Units) -> float:
    """Return the standard error that a time has at least where there is one run a side."""
    if units.kind != BLOCKS:
        return 0.0
    return math.sqrt(2) * _BETWEEN_RUNS * max(_mean_of_means(base), _mean_of_means(new))


def fastest(runs: Sequence[Values]) -> list[Values]:
    """Return the least tenth of the values of each run; nothing where it has too few.

    Neighbours on a CPU, its caches and its clock only ever add time, to some iterations more than
    to others. So the fastest ones of two runs are more alike than their means: 2 to 3 times, where
    others used the CPUs.
    """
    if min(len(run) for run in runs) < _LEAST_FOR_FASTEST:
        return []
    return [np.sort(run)[: len(run) // _FASTEST_PART] for run in runs]


def _mean_of_means(runs: Sequence[Values]) -> float:
    """Return the mean, whatever the order: each run counts once."""
    return math.fsum(_mean(run) for run in runs) / len(runs)


def _mean(values: Values) -> float:
    # In the order of time, which is always the same.
    return float(values.sum()) / len(values)


def _of_runs(base: Sequence[Values], new: Sequence[Values]) -> tuple[float, int]:
    """Return the standard error of the difference of the means, and its degrees of freedom."""
    parts = []
    for side in (base, new):
        means = sorted(_mean(run) for run in side)
        parts.append((_variance(means), len(means)))
    if any(count == 1 for _, count in parts):
        # The spread of one side stands for both.
        variance, count = max(parts, key=lambda part: part[1])
        return math.sqrt(variance * (1 + 1 / count)), count - 1
    errors = [(variance / count, count - 1) for variance, count in parts]
    total = math.fsum(error for error, _ in errors)
    if not total:
        return 0.0, 1
    # Welch and Satterthwaite, rounded down.
    freedom = total**2 / math.fsum(error**2 / free for error, free in errors)
    return math.sqrt(total), max(1, int(freedom))


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _of_blocks(base: Values, new: Values, units: Units) -> tuple[float, int]:
    blocks = np.array_split(new - base, units.blocks)
    return math.sqrt(_variance([_mean(block) for block in blocks])), units.blocks - 1
