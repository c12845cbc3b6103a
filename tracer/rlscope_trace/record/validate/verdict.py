"""Whether the correction is good enough, and what there is to say about how that was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.record.validate.compare import Figures, compare
from rlscope_trace.record.validate.per_operation import (
    OperationOverhead,
    PerIteration,
    ShareError,
    missing_operations,
    operation_overheads,
    per_iteration,
    share_errors,
)
from rlscope_trace.record.validate.plan import SHORT_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.validate.pairs import Pair

# What the sign test needs for 95 %.
_PAIRS_FOR_INTERVALS = 6


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for."""

    command: tuple[str, ...]
    record_options: tuple[str, ...]
    runs: int
    """Pairs."""
    max_bias: float
    """Percent of the untraced CPU time."""
    per: str | None
    """The operation that is an iteration."""


@dataclass(frozen=True, slots=True)
class Validation:
    """All that a validation tells."""

    asked: Asked
    pairs: tuple[Pair, ...]
    figures: Figures
    operations: tuple[OperationOverhead, ...]
    shares: tuple[ShareError, ...]
    iteration: PerIteration | None
    warnings: tuple[str, ...]

    @property
    def is_biased(self) -> bool:
        """Tell whether the corrected CPU time is off by more than is allowed."""
        return abs(self.figures.bias.median) > self.asked.max_bias


def validate(pairs: Sequence[Pair], asked: Asked) -> Validation:
    """Judge the pairs there are: at least one."""
    figures = compare(pairs)
    iteration = per_iteration(pairs, asked.per) if asked.per else None
    return Validation(
        asked,
        tuple(pairs),
        figures,
        tuple(operation_overheads(pairs)),
        tuple(share_errors(pairs)),
        iteration,
        (
            *_about_runs(pairs, figures, asked),
            *_about_iterations(asked.per, iteration),
            *_about_traces(pairs),
        ),
    )


def _about_runs(pairs: Sequence[Pair], figures: Figures, asked: Asked) -> list[str]:
    reported: list[str] = []
    if len(pairs) < asked.runs:
        reported.append(f"stopped early: {len(pairs)} of {asked.runs} pairs")
    shortest_ns = min(pair.untraced.cpu_ns for pair in pairs)
    if shortest_ns < SHORT_NS:
        reported.append(
            f"a run takes {shortest_ns / 1e9:.2f} s of CPU time: less than 1 s says little"
        )
    if any(run.left_running for pair in pairs for run in (pair.untraced, pair.traced)):
        reported.append(
            "the program left processes running: their CPU time is not counted, though the traces"
            " hold their overhead; it should wait for them"
        )
    if len(pairs) < _PAIRS_FOR_INTERVALS:
        reported.append(
            f"{len(pairs)} pairs are too few for intervals: --runs {_PAIRS_FOR_INTERVALS} or more"
        )
    if figures.noise is not None and figures.noise.median > asked.max_bias:
        reported.append(
            f"untraced runs differ by {figures.noise.median:.1f} % from one to the next, more than"
            f" the {asked.max_bias:g} % to be judged: take a quieter machine, or more runs"
        )
    return reported


def _about_iterations(per: str | None, iteration: PerIteration | None) -> list[str]:
    if per and iteration is None:
        return [f"not every traced run has the operation {per}: no times per iteration"]
    if iteration and len(set(iteration.counts)) > 1:
        return [
            f"the number of {iteration.operation} differs between traced runs"
            f" ({min(iteration.counts):,} to {max(iteration.counts):,}): is the program seeded?"
        ]
    return []


def _about_traces(pairs: Sequence[Pair]) -> list[str]:
    reported: list[str] = []
    lost = sum(pair.trace.lost > 0 for pair in pairs)
    if lost:
        reported.append(
            f"{lost} of {len(pairs)} traces lost records: their overhead is not complete"
        )
    if missing := missing_operations(pairs):
        reported.append(
            f"not compared: {', '.join(missing)} have timers, but are not in every trace"
        )
    doubts: dict[str, list[str]] = {}
    for pair in pairs:
        for event, doubt in pair.trace.warnings.items():
            doubts.setdefault(event, []).append(doubt)
    # The numbers in them differ from trace to trace.
    reported += [
        f"the cost of {event}, in {len(texts)} of {len(pairs)} traces: {texts[0]}"
        for event, texts in doubts.items()
    ]
    return reported
