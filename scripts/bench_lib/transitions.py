"""What the default recording of a Python program costs it, in percent of its CPU time per step.

One process works for as long as it takes; one recorder is attached to it, and takes all that it has
attached away for some 250 ms out of every 500. The CPU time of the steps inside each window without
instruments is compared with that of the two windows around it: what the machine does otherwise is
the same there, or changes evenly. Many such windows tell far smaller differences apart than runs of
a minute do. They begin once the governor has settled.
"""

from __future__ import annotations

import json
import statistics
import sys
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_lib.figure import BenchError, Figure
from bench_lib.recorder import REPOSITORY, Peer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_lib.recorder import Bench

# From so much CPU time per step on the first budget holds, below it the second.
_LONG_STEP_NS = 200_000
LONG_BUDGET_PERCENT, SHORT_BUDGET_PERCENT = 3, 5
WORKLOADS = ("a2c", "a2c-subproc", "halfcheetah", "humanoid", "mlp")
# Per value that is asked for: 9 give a minute of work, and some 110 windows without instruments.
_SECONDS_PER_RUN = 7
# After a switch: caches, and what the OS kernel puts off.
_GUARD_NS = 5_000_000
# Chunks of steps that a window must hold to count.
_LEAST_CHUNKS = 5

Chunk = tuple[int, int, int]
Window = tuple[bool, int, int]


@dataclass(frozen=True, slots=True)
class _Measured:
    chunks: list[Chunk]
    steps: int
    """In each chunk."""
    windows: list[Window]
    recorder_ns: int


def measure(bench: Bench) -> list[Figure]:
    """Return the cost on each workload."""
    unknown = bench.only - {*WORKLOADS}
    if unknown:
        raise BenchError(
            f"no workload {', '.join(sorted(unknown))}", hint=f"one of: {', '.join(WORKLOADS)}"
        )
    names = [name for name in WORKLOADS if not bench.only or name in bench.only]
    return [figure for name in names for figure in _measure(bench, name)]


def _measure(bench: Bench, name: str) -> list[Figure]:
    found = _record(bench, name)
    means = window_means(found.chunks, found.windows)
    added = added_percent(means)
    if not added:
        raise BenchError(f"{name}: no window held {_LEAST_CHUNKS} chunks", hint="more --runs")
    off_us = tuple(mean / found.steps / 1e3 for is_on, mean in means if not is_on and mean)
    on_ns = sum(end - start for is_on, start, end in found.windows if is_on)
    is_long = statistics.median(off_us) * 1e3 >= _LONG_STEP_NS
    return [
        Figure(f"{name}, one step, untraced", "us of CPU", off_us),
        Figure(
            f"{name}, added in the target", "% of its CPU", added,
            LONG_BUDGET_PERCENT if is_long else SHORT_BUDGET_PERCENT,
        ),
        Figure(f"{name}, A/A", "% of its CPU", control_percent(means), note="must hold 0"),
        Figure(f"{name}, the recorder's own", "% of a CPU", (100 * found.recorder_ns / on_ns,)),
    ]  # fmt: skip


def _record(bench: Bench, name: str) -> _Measured:
    here = REPOSITORY / "scripts/bench_lib"
    program = str(here / "step_windows.py")
    workload = Peer.start([*bench.pinned(), bench.python, program, name])
    try:
        # Long enough for the recorder to find what there is while it is at work.
        workload.send("12")
        toggled = Peer.start(
            [sys.executable, str(here / "toggled_recorder.py"), str(workload.process.pid)]
        )
        try:
            workload.answer()
            workload.send(str(_SECONDS_PER_RUN * bench.runs))
            workload.answered_within(_SECONDS_PER_RUN * bench.runs + 60)
            told = json.loads(workload.answer())
            toggled.send("stop")
            switched = json.loads(toggled.answer())
        finally:
            toggled.close()
    finally:
        workload.close()
    return _Measured(told["chunks"], told["steps"], switched["windows"], switched["cpu_ns"])


def window_means(
    chunks: Sequence[Chunk], windows: Sequence[Window]
) -> list[tuple[bool, float | None]]:
    """Return of each window whether it was on, and the mean CPU time of the chunks inside it.

    None: there are too few. Chunks that reach out of their window count nowhere.
    """
    starts = [start_ns for start_ns, _, _ in chunks]
    means: list[tuple[bool, float | None]] = []
    for is_on, start_ns, end_ns in windows:
        inside = []
        for index in range(bisect_left(starts, start_ns + _GUARD_NS), len(chunks)):
            _, chunk_end_ns, cpu_ns = chunks[index]
            if chunk_end_ns > end_ns:
                break
            inside.append(cpu_ns)
        means.append((is_on, statistics.mean(inside) if len(inside) >= _LEAST_CHUNKS else None))
    return means


def added_percent(means: Sequence[tuple[bool, float | None]]) -> tuple[float, ...]:
    """Return of each window that was off what the windows around it took more, in percent."""
    return tuple(
        100 * ((before + after) / 2 / own - 1)
        for (_, before), (is_on, own), (_, after) in zip(means, means[1:], means[2:], strict=False)
        if not is_on and before and own and after
    )


def control_percent(means: Sequence[tuple[bool, float | None]]) -> tuple[float, ...]:
    """Return the same of windows that were all off: each against the ones before and after it."""
    off = [(True, mean) for is_on, mean in means if not is_on]
    return added_percent([(index % 2 == 0, mean) for index, (_, mean) in enumerate(off)])
