"""What it costs a program that its phases are found and recorded, and nothing else is.

Both runs of a pair are made at once, on one CPU: whatever else the machine does is the same for
both. The phases go to the listener of the tests, which writes them as the shim does, so no recorder
takes part. Start-up is part of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from bench_lib.chosen import chosen
from bench_lib.figure import BenchError, Figure
from bench_lib.overhead_workloads import Workload, sb3
from bench_lib.recorder import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests" / "support"))

import phases_harness

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench_lib.recorder import Bench

BUDGET_PERCENT = 2

_WORKLOADS = (
    sb3("sb3-a2c-16", "a2c", 16, 65_536),
    # Few environments: the most phases for the work.
    sb3("sb3-a2c-4", "a2c", 4, 16_384),
    sb3("sb3-ppo", "ppo", 4, 24_576),
    sb3("sb3-dqn", "dqn", 1, 14_000),
)


def measure(bench: Bench) -> Iterator[Figure]:
    """Yield, for each program, what is added to its CPU time."""
    harness = phases_harness.make(bench.directory)
    workloads = {workload.name: workload for workload in _WORKLOADS}
    for name, _ in chosen(bench.only, [*workloads], [""], plain=[""]):
        pairs = [_pair(bench, harness, workloads[name], number) for number in range(bench.runs)]
        added = tuple(100 * (with_s / without_s - 1) for without_s, with_s in pairs)
        yield Figure(name, "% of its CPU", added, BUDGET_PERCENT)


def _pair(
    bench: Bench, harness: phases_harness.Harness, workload: Workload, number: int
) -> tuple[float, float]:
    """Return the CPU time in seconds of a run without phases and of one with them."""
    ranges = bench.directory / f"{workload.name}-{number}"
    ranges.mkdir()
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ways = {"without": without, "with": harness.environment(ranges)}
    order = [*ways] if number % 2 else [*reversed(ways)]
    started = {way: _start(bench, workload, ways[way]) for way in order}
    used_s = {way: _cpu_s(process, workload) for way, process in started.items()}
    return used_s["without"], used_s["with"]


def _start(
    bench: Bench, workload: Workload, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*bench.pinned, *workload.command(bench.python, "default")],
        env={**environment, "OMP_NUM_THREADS": "1"},
        cwd=_folder(bench),
        stdout=subprocess.DEVNULL,
    )


def _folder(bench: Bench) -> Path:
    """Return where programs may leave their logs."""
    folder = bench.directory / "programs"
    folder.mkdir(exist_ok=True)
    return folder


def _cpu_s(process: subprocess.Popen[bytes], workload: Workload) -> float:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchError(f"{workload.name} ended with {process.returncode}", hint="scripts/test")
    return usage.ru_utime + usage.ru_stime
