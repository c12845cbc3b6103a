"""From pairs of runs to figures: what tracing added, and what the correction leaves of it."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.medians import Estimate, estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlscope_trace.validate.runs import Run
    from rlscope_trace.validate.trace_figures import TraceFigures

# 97.5 % quantiles of Student's t from three degrees of freedom on; the last one for all above.
_QUANTILES = (3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
_LEAST_FREEDOM = 3


@dataclass(frozen=True, slots=True)
class Pair:
    """An untraced and a traced run, one right after the other or both at once."""

    untraced: Run
    traced: Run
    trace: TraceFigures
    traced_first: bool | None
    """None: both at once."""

    @property
    def corrected_ns(self) -> float:
        """Return the CPU time of the traced run without the overhead that its trace tells of."""
        return self.traced.cpu_ns - self.trace.overhead_ns

    @property
    def corrected_interval_ns(self) -> tuple[float, float]:
        """Return its interval: that of the overhead."""
        low_ns, high_ns = self.trace.interval_ns
        return self.traced.cpu_ns - high_ns, self.traced.cpu_ns - low_ns


@dataclass(frozen=True, slots=True)
class Figures:
    """Percentages, as medians of the ratios of pairs with their sign-test intervals."""

    inflation: Estimate
    """CPU time traced / untraced - 1."""
    bias: Estimate
    """CPU time corrected / untraced - 1."""
    overhead: Estimate
    """Overhead as the traces tell it, of the untraced CPU time."""
    wall_inflation: Estimate | None
    """None, as wall_bias, where two runs at once took the CPU from each other."""
    wall_bias: Estimate | None
    timed_inflation: Estimate | None
    """As inflation, of the time that the program's timers cover; None: it has none."""
    timed_bias: Estimate | None
    """None also where an operation with a timer is not in every trace."""
    noise: Estimate | None
    """How far two neighbouring untraced runs differ; of pairs made at once, how far they are from
    their median; None: there is one only."""
    covered: int
    """Pairs whose untraced CPU time lies in the interval of the corrected one, noise included;
    the noise is that of the other pairs, known from five pairs on."""
    covered_by_costs: int
    """The same with the interval of the costs alone: as if runs were all alike."""


def compare(pairs: Sequence[Pair]) -> Figures:
    """Return the figures of one pair or more."""
    together = all(pair.traced_first is None for pair in pairs)
    differences = (
        from_median([pair.corrected_ns / pair.untraced.cpu_ns for pair in pairs])
        if together
        else neighbour_differences([pair.untraced.cpu_ns for pair in pairs])
    )
    noises = noise_halves([pair.corrected_ns / pair.untraced.cpu_ns for pair in pairs])

    def percent(value: Callable[[Pair], float]) -> Estimate:
        found = estimate([100 * value(pair) for pair in pairs])
        if found is None:
            raise ValueError("no pairs to compare")
        return found

    return Figures(
        inflation=percent(lambda pair: pair.traced.cpu_ns / pair.untraced.cpu_ns - 1),
        bias=percent(lambda pair: pair.corrected_ns / pair.untraced.cpu_ns - 1),
        overhead=percent(lambda pair: pair.trace.overhead_ns / pair.untraced.cpu_ns),
        wall_inflation=None if together else percent(lambda pair: _wall_ratio(pair, 0)),
        wall_bias=(
            None
            if together
            else percent(lambda pair: _wall_ratio(pair, pair.trace.wall_overhead_ns))
        ),
        timed_inflation=estimate([100 * _timed_ratio(p, 0) for p in pairs if p.untraced.timed_ns]),
        timed_bias=estimate(
            [100 * _timed_ratio(p, timed_overhead_ns(p)) for p in pairs if p.untraced.timed_ns]
            if not missing_operations(pairs)
            else []
        ),
        noise=estimate([100 * abs(value) for value in differences if len(pairs) > 1]),
        covered=sum(_covers(pair, noise) for pair, noise in zip(pairs, noises, strict=True)),
        covered_by_costs=sum(_covers(pair, 0.0) for pair in pairs),
    )


def _wall_ratio(pair: Pair, overhead_ns: float) -> float:
    return (pair.traced.wall_ns - overhead_ns) / pair.untraced.wall_ns - 1


def _timed_ratio(pair: Pair, overhead_ns: float) -> float:
    return (pair.traced.timed_ns - overhead_ns) / pair.untraced.timed_ns - 1


def timed_overhead_ns(pair: Pair) -> float:
    """Return the overhead in the operations of the main process that have timers."""
    return sum(
        cell.overhead_ns
        for cell in pair.trace.cells
        if cell.is_main and cell.operation in pair.traced.timers_ns
    )


def missing_operations(pairs: Sequence[Pair]) -> list[str]:
    """Return the operations that have a timer, but are not in every trace."""
    missing = {
        name: None
        for pair in pairs
        for name in pair.untraced.timers_ns
        if not any(cell.is_main and cell.operation == name for cell in pair.trace.cells)
    }
    return list(missing)


def neighbour_differences(values: Sequence[float]) -> list[float]:
    """Return by how much of itself each value differs from the next: an A/A control."""
    return [first / second - 1 for first, second in itertools.pairwise(values)]


def from_median(values: Sequence[float]) -> list[float]:
    """Return how far each value is from the median of all: the scatter, without what is common."""
    middle = statistics.median(values)
    return [value - middle for value in values]


def noise_halves(ratios: Sequence[float]) -> list[float]:
    """Return, per pair, half the width of the 95 % interval that the scatter of the others gives.

    A pair has no say in the interval that it is judged by, and what all have in common, a bias,
    is no scatter. 0 for less than five pairs.
    """
    # That of a standard deviation of all but one.
    freedom = len(ratios) - 2
    if freedom < _LEAST_FREEDOM:
        return [0.0] * len(ratios)
    quantile = _QUANTILES[min(freedom - _LEAST_FREEDOM, len(_QUANTILES) - 1)]
    return [
        quantile * statistics.stdev([*ratios[:index], *ratios[index + 1 :]])
        for index in range(len(ratios))
    ]


def _covers(pair: Pair, noise: float) -> bool:
    """Tell whether the truth lies in the interval; noise: half its width, of the untraced time."""
    low_ns, high_ns = pair.corrected_interval_ns
    noise_ns = noise * pair.untraced.cpu_ns
    below_ns = math.hypot(pair.corrected_ns - low_ns, noise_ns)
    above_ns = math.hypot(high_ns - pair.corrected_ns, noise_ns)
    return pair.corrected_ns - below_ns <= pair.untraced.cpu_ns <= pair.corrected_ns + above_ns


@dataclass(frozen=True, slots=True)
class OperationOverhead:
    """One operation in one bucket: medians over the traced runs, in ns."""

    operation: str
    bucket: str
    measured_ns: float
    overhead_ns: float
    corrected_ns: float


def operation_overheads(pairs: Sequence[Pair]) -> list[OperationOverhead]:
    """Return the cells of the traces, the longest first; a run that lacks a cell counts with 0."""
    measured: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * len(pairs))
    overhead: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * len(pairs))
    for index, pair in enumerate(pairs):
        for cell in pair.trace.cells:
            measured[cell.operation, cell.bucket][index] += cell.measured_ns
            overhead[cell.operation, cell.bucket][index] += cell.overhead_ns
    rows = [
        OperationOverhead(
            *key,
            statistics.median(whole_ns),
            statistics.median(overhead[key]),
            statistics.median(w - o for w, o in zip(whole_ns, overhead[key], strict=True)),
        )
        for key, whole_ns in measured.items()
    ]
    return sorted(rows, key=lambda row: -row.measured_ns)


@dataclass(frozen=True, slots=True)
class ShareError:
    """The share of an operation against the program's own untraced timers, in percent of CPU."""

    operation: str
    untraced: float
    measured: float
    corrected: float
    error: Estimate
    """Corrected less untraced, in percentage points."""


def share_errors(pairs: Sequence[Pair]) -> list[ShareError]:
    """Return a row per operation with a timer, in every trace; shares are of a whole run."""
    names = {name: None for pair in pairs for name in pair.untraced.timers_ns}
    missing = missing_operations(pairs)
    return [_share_error(pairs, name) for name in names if name not in missing]


def _share_error(pairs: Sequence[Pair], name: str) -> ShareError:
    untraced = [100 * p.untraced.timers_ns.get(name, 0) / p.untraced.cpu_ns for p in pairs]
    measured = [_share(pair.trace, name, corrected=False) for pair in pairs]
    corrected = [_share(pair.trace, name, corrected=True) for pair in pairs]
    error = estimate([found - true for found, true in zip(corrected, untraced, strict=True)])
    if error is None:
        raise ValueError("no pairs to compare")
    return ShareError(
        name,
        statistics.median(untraced),
        statistics.median(measured),
        statistics.median(corrected),
        error,
    )


def _share(trace: TraceFigures, name: str, *, corrected: bool) -> float:
    """Return the share of an operation in percent, both of times that the trace holds."""
    own = whole = 0.0
    for cell in trace.cells:
        time_ns = cell.measured_ns - (cell.overhead_ns if corrected else 0)
        whole += time_ns
        own += time_ns if cell.is_main and cell.operation == name else 0
    return 100 * own / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class PerIteration:
    """CPU time per instance of one operation, ns; medians."""

    operation: str
    counts: tuple[int, ...]
    """Instances in each traced run; untraced runs are taken to have their median."""
    untraced_ns: float
    traced_ns: float
    corrected_ns: float


def per_iteration(pairs: Sequence[Pair], operation: str) -> PerIteration | None:
    """Return the times per instance of an operation; None: a trace has none of it."""
    counts = tuple(pair.trace.instances.get(operation, 0) for pair in pairs)
    if not pairs or not all(counts):
        return None
    usual = statistics.median(counts)
    counted = list(zip(pairs, counts, strict=True))
    return PerIteration(
        operation,
        counts,
        statistics.median(pair.untraced.cpu_ns for pair in pairs) / usual,
        statistics.median(pair.traced.cpu_ns / count for pair, count in counted),
        statistics.median(pair.corrected_ns / count for pair, count in counted),
    )
