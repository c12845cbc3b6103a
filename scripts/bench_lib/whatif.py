"""What `whatif` predicts, against programs that were really changed: docs/whatif.md.

Each program is traced once and predicted from that. Then --runs times, untraced: each changed
version right before or after the program as it is. The truth is the median of these ratios, of wall
time, or of CPU time where one process does all the work and never waits: others that use the
machine then weigh less. A figure is the error of the predicted ratio, in percent.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_lib.figure import BenchError, Figure
from bench_lib.recorder import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench_lib.recorder import Bench

_PROGRAM = REPOSITORY / "tests/workloads/whatif_program.py"
_LIGHT = REPOSITORY / "tests/workloads/whatif_light.py"
_WORST = 15.0


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a program, and the question that it answers."""

    name: str
    arguments: tuple[str, ...]
    asked: tuple[str, ...]
    cpu_list: str | None = None


def _loop(rounds: int) -> tuple[Change, ...]:
    return (
        Change("simulator x4", ("--rounds", str(4 * rounds)), ("--speedup", "loop=0.25")),
        Change("simulator /4", ("--rounds", str(rounds // 4)), ("--speedup", "loop=4")),
        Change("simulator /2", ("--rounds", str(rounds // 2)), ("--speedup", "loop=2")),
    )


_EPOCHS = (
    Change("epochs 4 -> 1", ("--epochs", "1"), ("--count", "backpropagation=0.25")),
    Change("epochs 4 -> 8", ("--epochs", "8"), ("--count", "backpropagation=2")),
)
_LEARN = (
    Change("learner /2", ("--learn", "30000"), ("--speedup", "learn=2")),
    Change("learner x3", ("--learn", "180000"), ("--count", "learn=3")),
)
_ONE_CPU = Change("CPUs 2 -> 1", (), ("--cpus", "1"), cpu_list="0")
_SUBPROC = ("--vector", "subproc")
PROGRAMS: dict[str, tuple[tuple[str, ...], tuple[Change, ...]]] = {
    "one process": ((), (*_loop(4000), *_LEARN)),
    "one process, heavy": (("--rounds", "12000"), (*_loop(12_000), *_LEARN)),
    "2 workers": (("--workers", "2"), (*_loop(4000), *_LEARN, _ONE_CPU)),
    "2 workers, heavy": (
        ("--workers", "2", "--rounds", "12000"), (*_loop(12_000), *_LEARN, _ONE_CPU)
    ),
    "4 workers": (("--workers", "4"), (*_loop(4000), *_LEARN, _ONE_CPU)),
    "SB3 PPO": (("--rounds", "2000"), (*_loop(2000), *_EPOCHS, _ONE_CPU)),
    "SB3 PPO, 1 environment": (
        ("--environments", "1", "--rounds", "8000"), (*_loop(8000), *_EPOCHS)
    ),
    "SB3 A2C": (("--algorithm", "a2c", "--rounds", "2000"), _loop(2000)),
    "SB3 DQN": (
        ("--algorithm", "dqn", "--environments", "1", "--rounds", "4000", "--steps", "500"),
        (*_loop(4000), *_EPOCHS),
    ),
    "SB3 PPO, sleeping": (
        ("--environments", "1", "--rounds", "100", "--sleep-us", "300", "--steps", "1024"),
        (
            Change("sleep /3", ("--sleep-us", "100"), ("--speedup", "loop=3")),
            *_EPOCHS,
        ),
    ),
    "SB3 PPO, 4 workers": ((*_SUBPROC, "--rounds", "4000"), (*_loop(4000), *_EPOCHS, _ONE_CPU)),
    "SB3 PPO, 2 workers": (
        (*_SUBPROC, "--environments", "2", "--rounds", "16000"), (*_loop(16000), _ONE_CPU)
    ),
    "SB3 A2C, 4 workers": (
        (*_SUBPROC, "--algorithm", "a2c", "--rounds", "8000"), (*_loop(8000), _ONE_CPU)
    ),
}  # fmt: skip


def measure(bench: Bench) -> Iterator[Figure]:
    """Yield the error of each prediction; what was refused is a note without a judgement."""
    held = []
    for name, (arguments, changes) in PROGRAMS.items():
        if bench.only and name not in bench.only:
            continue
        trace = bench.trace("whatif")
        bench.record(trace, _command(bench, name, arguments))
        measured = _measured(bench, name, arguments, changes)
        for change in changes:
            pairs = measured[change.name]
            truth = statistics.median(pairs)
            known = f"measured {truth:.3f} ({pairs[0]:.3f} to {pairs[-1]:.3f})"
            found = _predicted(bench, trace, change)
            label = f"{name}: {change.name}"
            if isinstance(found, str):
                yield Figure(label, "%", (0.0,), note=f"{known}; refused: {found}")
                continue
            ratio, low, high, grade, fidelity = found
            held.append(low <= truth <= high)
            note = (
                f"{known}, predicted {ratio:.3f} [{low:.3f}, {high:.3f}],"
                f" grade {grade}, fidelity {100 * fidelity:+.1f} %"
            )
            yield Figure(
                label, "%", (100 * (ratio / truth - 1),), _WORST, either_way=True, note=note
            )
    if held:
        share = sum(held) / len(held)
        note = f"{sum(held)} of {len(held)}"
        yield Figure("truth within the interval", "share", (share,), 0.9, at_least=True, note=note)


def _command(bench: Bench, name: str, arguments: tuple[str, ...]) -> list[str]:
    program = _PROGRAM if name.startswith("SB3") else _LIGHT
    return [bench.python, str(program), *arguments]


def _measured(
    bench: Bench, name: str, arguments: tuple[str, ...], changes: tuple[Change, ...]
) -> dict[str, list[float]]:
    """Return the ratios changed / as it is, each of two runs in a row, in order."""
    clock = "seconds" if "worker" in name or "sleep" in name else "cpu_seconds"
    ratios: dict[str, list[float]] = {}
    for at in range(bench.runs):
        for change in changes:
            pair = [None, change] if at % 2 == 0 else [change, None]
            took = {one: _took(bench, name, arguments, one, clock) for one in pair}
            ratios.setdefault(change.name, []).append(took[change] / took[None])
    return {name: sorted(found) for name, found in ratios.items()}


def _took(
    bench: Bench, name: str, arguments: tuple[str, ...], change: Change | None, clock: str
) -> float:
    command = _command(bench, name, (*arguments, *(change.arguments if change else ())))
    if change and change.cpu_list:
        command = ["taskset", "--cpu-list", change.cpu_list, *command]
    ended = subprocess.run(
        command, check=True, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return float(json.loads(ended.stdout.splitlines()[-1])[clock])


def _predicted(
    bench: Bench, trace: Path, change: Change
) -> tuple[float, float, float, str, float] | str:
    """Return ratio, low, high, grade and fidelity, or why it was refused."""
    command = [bench.recorder, "whatif", str(trace), *change.asked, "--format", "json"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode == 1:
        return ended.stderr.splitlines()[0].removeprefix("error: ")
    if ended.returncode:
        raise BenchError(f"whatif failed: {ended.stderr.strip()}", hint="rlscope-trace whatif -h")
    found = json.loads(ended.stdout)
    names = ("duration_ratio", "low", "high", "grade", "fidelity")
    ratio, low, high, grade, fidelity = (found[name] for name in names)
    return float(ratio), float(low), float(high), str(grade), float(fidelity)
