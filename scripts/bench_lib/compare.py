"""How often `compare` says that a program differs from itself, and whether it finds changes.

Each program is recorded --runs times (twelve and more tell something), in turn. Sides are drawn
from these runs, so comparisons are not independent: the shares are estimates.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench_lib.figure import Figure
from bench_lib.recorder import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench_lib.recorder import Bench
    from rlscope_analysis.compare.comparison import Comparison
    from rlscope_analysis.compare.run import Run

_WORKLOADS = REPOSITORY / "tests/workloads"
_STEPS = ("compared.py",)
_WORKERS = ("compared.py", "--workers", "3", "--rounds", "2000")
PROGRAMS = {"steps": _STEPS, "workers": _WORKERS, "SB3": ("rl_sb3.py", "--steps", "16384")}
_EITHER_WAY = "OpenMP thread"
# What is planted into which program, and which operations and causes name it.
PLANTED: dict[str, tuple[str, tuple[str, ...], frozenset[str], frozenset[str]]] = {
    "simulation +5 %": (
        "steps", (*_STEPS, "--rounds", "4200"), frozenset({"simulation"}), frozenset({"running"})
    ),
    "inference +10 %": (
        "steps", (*_STEPS, "--layers", "11"), frozenset({"inference"}), frozenset({"running"})
    ),
    "optimizer step": (
        "steps", (*_STEPS, "--optimizer-steps", "5"), frozenset({"backpropagation"}),
        frozenset({"running"}),
    ),
    "sleep of 50 us": (
        "steps", (*_STEPS, "--sleep-us", "50"), frozenset({"simulation"}), frozenset({"timer"})
    ),
    _EITHER_WAY: (
        "steps", (*_STEPS, "--threads", "2"), frozenset({"backpropagation", "inference"}),
        frozenset({"running", "lock"}),
    ),
    "straggler": (
        "workers", (*_WORKERS, "--straggler", "1.5"), frozenset({"simulation"}),
        frozenset({"running", "cpu_taken"}),
    ),
}  # fmt: skip
_COMPARISONS, _SIDE = 60, 5
FALSE_ALARMS_BUDGET, FOUND_BUDGET, SECONDS_BUDGET = 0.05, 0.9, 2.0
_STATES = 600_000
_ALARMS = frozenset({"better", "worse", "different"})


def measure(bench: Bench) -> Iterator[Figure]:
    """Yield the time it takes, shares of false alarms, and of planted changes found and named."""
    from rlscope_analysis.compare.comparison import compare

    yield _speed(bench)
    commands = {**PROGRAMS, **{name: of[1] for name, of in PLANTED.items()}}
    runs = _recorded(bench, commands)
    chance = random.Random(1)
    for name in PROGRAMS:
        for side in (1, min(_SIDE, bench.runs // 2)):
            found = [compare(*_sides(chance, runs[name], side)) for _ in range(_COMPARISONS)]
            alarms = tuple(float(one.verdict in _ALARMS) for one in found)
            yield _share(f"false alarms, {name}, {side} a side", alarms, FALSE_ALARMS_BUDGET)
    for name, (program, _, operations, causes) in PLANTED.items():
        side = min(_SIDE, bench.runs)
        results = [
            compare(chance.sample(runs[program], side), chance.sample(runs[name], side))
            for _ in range(_COMPARISONS // 3)
        ]
        # With another thread an iteration may be shorter: which way it goes is the machine's.
        expected = _ALARMS if name == _EITHER_WAY else _ALARMS - {"better"}
        seen = tuple(float(one.verdict in expected) for one in results)
        named = tuple(float(_names(one, operations, causes)) for one in results)
        yield _share(f"found: {name}", seen, FOUND_BUDGET, at_least=True)
        yield _share(f"attributed: {name}", named, FOUND_BUDGET, at_least=True)


def _share(name: str, hits: Sequence[float], budget: float, *, at_least: bool = False) -> Figure:
    share = sum(hits) / len(hits)
    note = f"{sum(hits):.0f} of {len(hits)} comparisons"
    return Figure(name, "share", (share,), budget, at_least=at_least, note=note)


def _sides(chance: random.Random, runs: list[Run], side: int) -> tuple[list[Run], list[Run]]:
    drawn = chance.sample(runs, 2 * side)
    return drawn[:side], drawn[side:]


def _names(found: Comparison, operations: frozenset[str], causes: frozenset[str]) -> bool:
    """Tell whether the part that the verdict names is what was planted; CPU time has no cause."""
    if found.cause is None or found.verdict not in _ALARMS:
        return False
    key = found.cause.key
    return key[2] in operations and (key[0] == "cpu" or key[4] in causes)


def _recorded(bench: Bench, commands: dict[str, tuple[str, ...]]) -> dict[str, list[Run]]:
    """Record each command as often as asked, in turn, and read what is compared of it."""
    from rlscope_analysis.compare.read import read_sides

    found: dict[str, list[Run]] = {name: [] for name in commands}
    trace = bench.directory / "compared.duckdb"
    for _ in range(bench.runs):
        for name, arguments in commands.items():
            threads = "2" if "--threads" in arguments else "1"
            command = [bench.recorder, "-o", str(trace), "--force", "--", bench.python, *arguments]
            subprocess.run(
                command, cwd=_WORKLOADS,
                env={**os.environ, "OMP_NUM_THREADS": threads}, check=True, capture_output=True,
            )  # fmt: skip
            found[name] += read_sides([trace], [])[0]
    return found


def _speed(bench: Bench) -> Figure:
    """Time the command with two traces of 600,000 states."""
    paths = [bench.trace("compared_before"), bench.trace("compared_after")]
    writer = Path(__file__).with_name("critical_path.py")
    for path in paths:
        subprocess.run([bench.python, str(writer), "write", str(path), str(_STATES)], check=True)
    seconds = []
    for _ in range(bench.runs):
        started_s = time.monotonic()
        subprocess.run([bench.recorder, "compare", *paths], check=True, capture_output=True)
        seconds.append(time.monotonic() - started_s)
    return Figure("compare 2 x 600,000 states", "s", tuple(seconds), SECONDS_BUDGET)
