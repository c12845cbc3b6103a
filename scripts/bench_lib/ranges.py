"""What an NVTX range costs the program that marks it: in C and in Python, heard and not heard."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bench_lib.figure import BenchError, Figure

if TYPE_CHECKING:
    from bench_lib.recorder import Bench

_BATCHES = 300
RECORD_BUDGET_NS = 100
PYTHON_BUDGET_NS = 200
UNREAD_BUDGET_NS = 50

# As range_loop.c; with attributes made once, and as users write it.
_PYTHON = """
import sys, time
import nvtx
domain = nvtx.get_domain("bench")
attributes = domain.get_event_attributes(message="one of the ranges of a loop")
annotation = nvtx.annotate("one of the ranges of a loop", domain="bench")
def prepared():
    for _ in range(1000):
        domain.push_range(attributes)
        domain.pop_range()
def annotated():
    for _ in range(1000):
        with annotation:
            pass
for work in prepared, annotated:
    times = []
    for _ in range(int(sys.argv[1])):
        before = time.thread_time_ns()
        work()
        times.append((time.thread_time_ns() - before) / 1000)
        time.sleep(0.001)
    print(sorted(times)[len(times) // 10])
"""


def measure(bench: Bench) -> list[Figure]:
    """Return the cost of a push and a pop, of both together where nothing else is said."""
    c = [bench.helper("range_loop", f"-I{_headers()}"), str(_BATCHES)]
    python = [bench.python, "-c", _PYTHON, str(_BATCHES)]
    ways = ("alone", "unread", "recorded")
    values: dict[tuple[str, str], list[float]] = {}
    for run in range(bench.runs):
        for way in ways if run % 2 == 0 else reversed(ways):
            reported = [*_run(bench, way, c), *_run(bench, way, python)]
            for name, value in zip(("c", "prepared", "annotated"), reported, strict=True):
                values.setdefault((name, way), []).append(value)

    def added(name: str, way: str, share: float = 1.0) -> tuple[float, ...]:
        pairs = zip(values[name, way], values[name, "alone"], strict=True)
        return tuple((with_us - without) * share for with_us, without in pairs)

    return [
        Figure("C, push or pop", "ns per call", added("c", "recorded", 0.5), RECORD_BUDGET_NS),
        Figure("C, nobody reads", "ns per range", added("c", "unread"), UNREAD_BUDGET_NS),
        Figure(
            "Python, prepared range", "ns per range", added("prepared", "recorded"),
            PYTHON_BUDGET_NS,
        ),
        Figure(
            "Python, with annotate", "ns per range", added("annotated", "recorded"),
            PYTHON_BUDGET_NS,
        ),
        Figure("Python, nobody reads", "ns per range", added("annotated", "unread")),
    ]  # fmt: skip


def _headers() -> str:
    """Return the folder of NVIDIA's header, from the package nvidia-nvtx."""
    try:
        files = importlib.metadata.files("nvidia-nvtx") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nvToolsExt.h" and file.parent.name == "nvtx3":
            return str(Path(str(file.locate())).parents[1])
    raise BenchError("the header of NVTX is not there", hint="pip install nvidia-nvtx nvtx")


def _run(bench: Bench, way: str, command: list[str]) -> list[float]:
    """Run it alone, under the recorder, or with the shim and without anybody who reads."""
    if way == "recorded":
        printed, _ = bench.record(bench.trace("ranges"), command)
        return [float(line) for line in printed.split()]
    environment = dict(os.environ)
    if way == "unread":
        environment["NVTX_INJECTION64_PATH"] = _shim(bench)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return [float(line) for line in done.stdout.split()]


def _shim(bench: Bench) -> str:
    """Return the shim that the recorder gives to programs."""
    printed, _ = bench.record(bench.trace("shim"), ["sh", "-c", "echo $NVTX_INJECTION64_PATH"])
    return printed.strip()
