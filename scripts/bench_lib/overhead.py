"""What recording adds to real training programs, and how much of it the correction takes away.

Both runs of a pair are made at once, on one CPU (bench_lib.together), so that whatever else the
machine does is the same for both; they are judged as `rlscope-trace validate` judges its own. The
programs time their own operations, untraced and traced alike.
"""

from __future__ import annotations

import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_lib.chosen import chosen
from bench_lib.figure import BenchError, Figure
from bench_lib.overhead_workloads import SETS, WORKLOADS, Workload
from bench_lib.together.runs import make_pairs
from rlscope_trace.errors import TracerError
from rlscope_trace.record.validate.per_operation import timed_overhead_ns
from rlscope_trace.record.validate.verdict import Asked, Validation, validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench_lib.recorder import Bench
    from rlscope_trace.record.validate.pairs import Pair

INFLATION_BUDGET_PERCENT = {"default": 5}
BIAS_BUDGET_PERCENT = {"default": 2, "marked": 2, "all": 5}
MEAN_BIAS_BUDGET_PERCENT = 1
SHARE_BUDGET_POINTS = 2
COVERAGE_BUDGET_PERCENT = 90


@dataclass(frozen=True, slots=True)
class _Result:
    workload: Workload
    recorded: str
    found: Validation

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return self.found.pairs

    def name(self, what: str) -> str:
        return f"{self.workload.name}, {self.recorded}, {what}"


def measure(bench: Bench) -> Iterator[Figure]:
    """Yield the figures of each workload and set, then those of all together."""
    bench.calibrate()
    workloads = {workload.name: workload for workload in WORKLOADS}
    results: dict[str, list[_Result]] = {}
    for name, recorded in chosen(bench.only, [*workloads], SETS, plain=SETS):
        result = _validate(bench, workloads[name], recorded)
        results.setdefault(recorded, []).append(result)
        yield from _figures(result)
    for of_set in results.values():
        yield from _together(of_set)


def _validate(bench: Bench, workload: Workload, recorded: str) -> _Result:
    timers = bench.directory / "timers.jsonl"
    command, options = workload.command(bench.python, recorded), SETS[recorded]
    asked = Asked(tuple(command), options, bench.runs, BIAS_BUDGET_PERCENT[recorded], None)
    pairs = []
    before = Path.cwd()
    os.chdir(bench.directory)
    try:
        for pair, shared in make_pairs(command, options, timers, bench.runs):
            if shared:
                sys.stderr.write(
                    f"warning: {workload.name}: the untraced run paid for probes, too:"
                    f" {', '.join(shared)}\n"
                )
            pairs.append(pair)
    except TracerError as error:
        raise BenchError(f"{workload.name}: {error}", hint="rlscope-trace doctor") from error
    finally:
        os.chdir(before)
    return _Result(workload, recorded, validate(pairs, asked))


def _figures(result: _Result) -> list[Figure]:
    pairs = result.pairs
    step_us = [p.untraced.timed_ns / result.workload.steps / 1e3 for p in pairs]
    figures = [
        Figure(result.name("step"), "us of CPU", tuple(step_us)),
        Figure(
            result.name("inflation"), "% of its CPU",
            _percent(pair.traced.cpu_ns / pair.untraced.cpu_ns for pair in pairs),
            INFLATION_BUDGET_PERCENT.get(result.recorded),
        ),
        Figure(
            result.name("corrected"), "% of its CPU",
            _percent(pair.corrected_ns / pair.untraced.cpu_ns for pair in pairs),
            BIAS_BUDGET_PERCENT[result.recorded], either_way=True,
        ),
        *_timed(result),
    ]  # fmt: skip
    figures += [
        Figure(
            result.name(f"share of {row.operation}"), "points", (row.error.median,),
            SHARE_BUDGET_POINTS, either_way=True,
            note=f"untraced {row.untraced:.1f} %, measured {row.measured:.1f} %",
        )
        for row in result.found.shares
        if result.recorded == "marked"
    ]  # fmt: skip
    return figures


def _percent(ratios: Iterable[float]) -> tuple[float, ...]:
    return tuple(100 * (ratio - 1) for ratio in ratios)


def _timed(result: _Result) -> list[Figure]:
    """Return the same of the training alone, without the start of the program."""
    traced = [pair.traced.timed_ns / pair.untraced.timed_ns for pair in result.pairs]
    corrected = [
        (pair.traced.timed_ns - timed_overhead_ns(pair)) / pair.untraced.timed_ns
        for pair in result.pairs
    ]
    inflation = Figure(result.name("training, inflation"), "% of its CPU", _percent(traced))
    if result.recorded != "marked":
        return [inflation]
    bias = Figure(result.name("training, corrected"), "% of its CPU", _percent(corrected))
    return [inflation, bias]


def _together(results: list[_Result]) -> list[Figure]:
    recorded = results[0].recorded
    biases = [result.found.figures.bias.median for result in results]
    pairs = sum(len(result.pairs) for result in results)
    covered = [result.found.figures.covered for result in results]
    by_costs = sum(result.found.figures.covered_by_costs for result in results)
    figures = [
        Figure(
            f"all, {recorded}, mean bias", "% of its CPU",
            (statistics.mean(abs(bias) for bias in biases),),
            MEAN_BIAS_BUDGET_PERCENT if recorded == "default" else None,
        )
    ]  # fmt: skip
    # Less than five pairs do not tell the noise.
    known = [count for count in covered if count is not None]
    if len(known) == len(covered):
        figures += [
            Figure(
                f"all, {recorded}, intervals that hold", "% of pairs",
                (100 * sum(known) / pairs,), COVERAGE_BUDGET_PERCENT, at_least=True,
                note=f"{100 * by_costs / pairs:.0f} % without the noise of runs",
            )
        ]  # fmt: skip
    return figures
