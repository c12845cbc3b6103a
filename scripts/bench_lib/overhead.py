"""What recording adds to real training programs, and how much of it the correction takes away.

`rlscope-trace validate --together` makes the pairs of runs: untraced and traced at once, on one
CPU, so that whatever else the machine does is the same for both. The programs time their own
operations, untraced and traced alike.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_lib.chosen import chosen
from bench_lib.figure import BenchError, Figure
from bench_lib.overhead_workloads import SETS, WORKLOADS, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_lib.recorder import Bench

INFLATION_BUDGET_PERCENT = {"default": 5}
BIAS_BUDGET_PERCENT = {"default": 2, "marked": 2, "all": 5}
MEAN_BIAS_BUDGET_PERCENT = 1
SHARE_BUDGET_POINTS = 2
COVERAGE_BUDGET_PERCENT = 90


@dataclass(frozen=True, slots=True)
class _Result:
    workload: Workload
    recorded: str
    told: dict[str, Any]

    @property
    def pairs(self) -> list[dict[str, Any]]:
        pairs: list[dict[str, Any]] = self.told["pairs"]
        return pairs

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
    timers.unlink(missing_ok=True)
    done = subprocess.run(
        [
            bench.recorder, "validate", "--together", "--runs", str(bench.runs), "--format", "json",
            "--timers", str(timers), *SETS[recorded],
            "--", *workload.command(bench.python, recorded),
        ],
        capture_output=True,
        text=True,
        cwd=bench.directory,
        check=False,
    )  # fmt: skip
    # 1 also says that the bias is too large: then there is a result all the same.
    if not done.stdout:
        raise BenchError(
            f"{workload.name}: {done.stderr.strip()[-600:]}", hint="rlscope-trace doctor"
        )
    return _Result(workload, recorded, json.loads(done.stdout))


def _figures(result: _Result) -> list[Figure]:
    pairs = result.pairs
    step_us = [sum(p["untraced_timers_ns"].values()) / result.workload.steps / 1e3 for p in pairs]
    figures = [
        Figure(result.name("step"), "us of CPU", tuple(step_us)),
        Figure(
            result.name("inflation"), "% of its CPU", _against_untraced(result, "traced_cpu_ns"),
            INFLATION_BUDGET_PERCENT.get(result.recorded),
        ),
        Figure(
            result.name("corrected"), "% of its CPU",
            _against_untraced(result, "corrected_cpu_ns"),
            BIAS_BUDGET_PERCENT[result.recorded], either_way=True,
        ),
        *_timed(result),
    ]  # fmt: skip
    figures += [
        Figure(
            result.name(f"share of {row['operation']}"), "points", (row["error"]["median"],),
            SHARE_BUDGET_POINTS, either_way=True,
            note=f"untraced {row['untraced']:.1f} %, measured {row['measured']:.1f} %",
        )
        for row in result.told["shares"]
        if result.recorded == "marked"
    ]  # fmt: skip
    return figures


def _against_untraced(result: _Result, column: str) -> tuple[float, ...]:
    return tuple(100 * (pair[column] / pair["untraced_cpu_ns"] - 1) for pair in result.pairs)


def _timed(result: _Result) -> list[Figure]:
    """Return the same of the training alone, without the start of the program."""
    traced, corrected = [], []
    for pair in result.pairs:
        untraced_ns = sum(pair["untraced_timers_ns"].values())
        traced_ns = sum(pair["traced_timers_ns"].values())
        traced.append(100 * (traced_ns / untraced_ns - 1))
        corrected.append(100 * ((traced_ns - pair["timed_overhead_ns"]) / untraced_ns - 1))
    inflation = Figure(result.name("training, inflation"), "% of its CPU", tuple(traced))
    if result.recorded != "marked":
        return [inflation]
    bias = Figure(result.name("training, corrected"), "% of its CPU", tuple(corrected))
    return [inflation, bias]


def _together(results: list[_Result]) -> list[Figure]:
    recorded = results[0].recorded
    biases = [result.told["figures"]["bias"]["median"] for result in results]
    pairs = sum(len(result.pairs) for result in results)
    covered = [result.told["figures"]["covered"] for result in results]
    by_costs = sum(result.told["figures"]["covered_by_costs"] for result in results)
    figures = [
        Figure(
            f"all, {recorded}, mean bias", "% of its CPU",
            (statistics.mean(abs(bias) for bias in biases),),
            MEAN_BIAS_BUDGET_PERCENT if recorded == "default" else None,
        )
    ]  # fmt: skip
    # Less than five pairs do not tell the noise.
    if None not in covered:
        figures += [
            Figure(
                f"all, {recorded}, intervals that hold", "% of pairs",
                (100 * sum(covered) / pairs,), COVERAGE_BUDGET_PERCENT, at_least=True,
                note=f"{100 * by_costs / pairs:.0f} % without the noise of runs",
            )
        ]  # fmt: skip
    return figures
