"""From pairs of runs to figures of each operation: its overhead, its share, its instances."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.record.medians import Estimate, estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.validate.pairs import Pair
    from rlscope_trace.record.validate.trace_figures import TraceFigures


def timed_overhead_ns(pair: Pair) -> float:
    """Return the overhead in the operations of the main process that have timers."""
    return sum(
        one.overhead_ns
        for one in pair.trace.bucket_times
        if one.is_main and one.operation in pair.traced.timers_ns
    )


def missing_operations(pairs: Sequence[Pair]) -> list[str]:
    """Return the operations that have a timer, but are not in every trace."""
    missing = {
        name: None
        for pair in pairs
        for name in pair.untraced.timers_ns
        if not any(one.is_main and one.operation == name for one in pair.trace.bucket_times)
    }
    return list(missing)


@dataclass(frozen=True, slots=True)
class OperationOverhead:
    """One operation in one bucket: medians over the traced runs, in ns."""

    operation: str
    bucket: str
    measured_ns: float
    overhead_ns: float
    corrected_ns: float


def operation_overheads(pairs: Sequence[Pair]) -> list[OperationOverhead]:
    """Return the times of the traces, the longest first; a run that lacks one counts with 0."""
    measured: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * len(pairs))
    overhead: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * len(pairs))
    for index, pair in enumerate(pairs):
        for one in pair.trace.bucket_times:
            measured[one.operation, one.bucket][index] += one.measured_ns
            overhead[one.operation, one.bucket][index] += one.overhead_ns
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
    for one in trace.bucket_times:
        time_ns = one.measured_ns - (one.overhead_ns if corrected else 0)
        whole += time_ns
        own += time_ns if one.is_main and one.operation == name else 0
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
