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
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench_lib.figure import BenchError, Figure
from bench_lib.recorder import REPOSITORY, Peer, Recorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_lib.recorder import Bench

# From so much CPU time per step on the first budget holds, below it the second.
_LONG_STEP_NS = 200_000
LONG_BUDGET_PERCENT, SHORT_BUDGET_PERCENT = 3, 5
WORKLOADS = ("a2c", "a2c-subproc", "halfcheetah", "humanoid", "mlp")
# Per value that is asked for: 9 give a minute of work, and some 110 windows without instruments.
_SECONDS_PER_RUN = 7
# A setting of the recorder for this alone; see rlscope_trace.loaders.capture.
_ALTERNATE, _WINDOW_MS = "RLSCOPE_TRACE_ALTERNATE_MS", 250
# What the governor takes to decide.
_SETTLING_S = 12
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
    recorder_share: float
    """CPU time of the recorder, of the time that passed."""


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
    is_long = statistics.median(off_us) * 1e3 >= _LONG_STEP_NS
    return [
        Figure(f"{name}, one step, untraced", "us of CPU", off_us),
        Figure(
            f"{name}, added in the target", "% of its CPU", added,
            LONG_BUDGET_PERCENT if is_long else SHORT_BUDGET_PERCENT,
        ),
        Figure(f"{name}, A/A", "% of its CPU", control_percent(means), note="must hold 0"),
        Figure(
            f"{name}, the recorder's own", "% of a CPU", (100 * found.recorder_share,),
            note="with what taking away and bringing back costs",
        ),
    ]  # fmt: skip


def _record(bench: Bench, name: str) -> _Measured:
    program = str(REPOSITORY / "scripts/bench_lib/step_windows.py")
    workload = Peer.start([*bench.pinned(), bench.python, program, name])
    trace = bench.trace("transitions")
    seconds = _SECONDS_PER_RUN * bench.runs
    try:
        workload.send(str(_SETTLING_S))
        recorder = Recorder.start(
            bench,
            ["--pid", str(workload.process.pid), "-o", str(trace), "--no-calibrate"],
            prefix=["env", f"{_ALTERNATE}={_WINDOW_MS}"],
        )
        recorder.wait_for("tracing pid")
        workload.answer()
        before_ns = recorder.cpu_ns()
        workload.send(str(seconds))
        workload.answered_within(seconds + 60)
        told = json.loads(workload.answer())
        own_ns = recorder.cpu_ns() - before_ns
        recorder.stop()
    finally:
        workload.close()
    query = "SELECT probes, start_ns, end_ns FROM calibration_window ORDER BY start_ns, end_ns"
    return _Measured(
        told["chunks"], told["steps"], windows_of(bench.query(trace, query)),
        own_ns / seconds / 1e9,
    )  # fmt: skip


def windows_of(rows: Sequence[dict[str, Any]]) -> list[Window]:
    """Return the stretches with everything and without; not while that changed.

    rows: of calibration_window. `all` is from the first change to the last one, which `changing`
    tells of.
    """
    away = [(row["start_ns"], row["end_ns"]) for row in rows if row["probes"] == "all"]
    changing = [(row["start_ns"], row["end_ns"]) for row in rows if row["probes"] == "changing"]
    taken = dict(changing)
    brought = {end_ns: start_ns for start_ns, end_ns in changing}
    windows: list[Window] = []
    before_ns = None
    for start_ns, end_ns in away:
        if before_ns is not None:
            windows.append((True, before_ns, start_ns))
        windows.append((False, taken.get(start_ns, start_ns), brought.get(end_ns, end_ns)))
        before_ns = end_ns
    return windows


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
