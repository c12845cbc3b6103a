"""What calls, samples and waits of a Python program cost it, in percent of its CPU time per step.

One process does windows of environment steps; a recorder with its default settings is attached to
every other one. The window that is judged begins once the governor has settled.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_lib.figure import Figure
from bench_lib.recorder import REPOSITORY, Peer

if TYPE_CHECKING:
    from bench_lib.recorder import Bench

# From so much CPU time per step on the first budget holds, below it the second.
_LONG_STEP_NS = 200_000
LONG_BUDGET_PERCENT, SHORT_BUDGET_PERCENT = 3, 5
WORKLOADS = ("a2c", "halfcheetah", "humanoid", "mlp")
# Of about 0.1 s each: what the governor takes to decide, and what is measured.
_SETTLING, _BATCHES = 40, 20


@dataclass(frozen=True, slots=True)
class _Window:
    step_ns: float
    """CPU time of one step: of the fastest tenth, for other programs take caches and twins."""
    recorder_share: float = 0
    """The recorder's own CPU time, of that of the target."""


def measure(bench: Bench) -> list[Figure]:
    """Return the cost on each workload."""
    return [figure for name in WORKLOADS for figure in _measure(bench, name)]


def _measure(bench: Bench, name: str) -> list[Figure]:
    program = str(REPOSITORY / "scripts/bench_lib/step_windows.py")
    workload = Peer.start([*bench.pinned(), bench.python, program, name])
    try:
        _window(workload)
        pairs = []
        for run in range(bench.runs):
            # In changing order: a machine that gets slower favours neither.
            traced = _traced(bench, workload) if run % 2 else None
            plain = _window(workload)
            pairs.append((plain, traced or _traced(bench, workload)))
    finally:
        workload.close()
    step_us = tuple(plain.step_ns / 1e3 for plain, _ in pairs)
    is_long = statistics.median(step_us) * 1e3 >= _LONG_STEP_NS
    added = tuple(100 * (traced.step_ns / plain.step_ns - 1) for plain, traced in pairs)
    own = tuple(100 * traced.recorder_share for _, traced in pairs)
    return [
        Figure(f"{name}, one step, untraced", "us of CPU", step_us),
        Figure(
            f"{name}, added in the target", "% of its CPU", added,
            LONG_BUDGET_PERCENT if is_long else SHORT_BUDGET_PERCENT,
        ),
        Figure(f"{name}, the recorder's own", "% of its CPU", own),
    ]  # fmt: skip


def _window(workload: Peer, batches: int = _BATCHES) -> _Window:
    workload.send(str(batches))
    step_ns = sorted(json.loads(workload.answer())["step_ns"])
    return _Window(step_ns[len(step_ns) // 10])


def _traced(bench: Bench, workload: Peer) -> _Window:
    recorder = bench.attach(workload.process.pid, bench.trace("transitions"))
    _window(workload, _SETTLING)
    before_ns = recorder.cpu_ns()
    workload.send(str(_BATCHES))
    told = json.loads(workload.answer())
    own_ns = recorder.cpu_ns() - before_ns
    # Saving is over when this returns: it must not compete with the next window.
    recorder.stop()
    step_ns = sorted(told["step_ns"])
    return _Window(step_ns[len(step_ns) // 10], own_ns / (sum(step_ns) * told["steps"]))
