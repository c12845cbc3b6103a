"""What it costs a program that its phases are found and recorded, and nothing else is.

Both runs of a pair are made at once, on one CPU: whatever else the machine does is the same for
both. The shim writes the phases into its ring, which nobody reads, so no recorder takes part; no
program here has more than one holds. Start-up is part of it.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

from bench_lib.chosen import chosen
from bench_lib.figure import BenchError, Figure
from bench_lib.overhead_workloads import Workload, sb3
from rlscope_trace.record import shims

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
    sb3("sb3-dqn", "dqn", 1, 8_000),
)


def measure(bench: Bench) -> Iterator[Figure]:
    """Yield, for each program, what is added to its CPU time."""
    workloads = {workload.name: workload for workload in _WORKLOADS}
    session = shims.new_session()
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as reader:
        # Where nobody listens the shim writes nothing.
        reader.bind(f"\0{session}")
        reader.listen(bench.runs * len(_WORKLOADS))
        for name, _ in chosen(bench.only, [*workloads], [""], plain=[""]):
            pairs = [_pair(bench, workloads[name], session, run) for run in range(bench.runs)]
            added = tuple(100 * (with_s / without_s - 1) for without_s, with_s in pairs)
            yield Figure(name, "% of its CPU", added, BUDGET_PERCENT)


def _pair(bench: Bench, workload: Workload, session: str, run: int) -> tuple[float, float]:
    """Return the CPU time in seconds of a run without phases and of one with them."""
    ways = {
        "without": {},
        "with": {
            "RLSCOPE_AUTO": "1",
            "RLSCOPE_SESSION": session,
            "PYTHONPATH": str(shims.PYTHON_FOLDER),
            "NVTX_INJECTION64_PATH": str(shims.LIBRARY),
        },
    }
    order = [*ways] if run % 2 else [*reversed(ways)]
    started = {way: _start(bench, workload, ways[way]) for way in order}
    used_s = {way: _cpu_s(process, workload) for way, process in started.items()}
    return used_s["without"], used_s["with"]


def _start(bench: Bench, workload: Workload, added: Mapping[str, str]) -> subprocess.Popen[bytes]:
    before = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(
        [*bench.pinned(), *workload.command(bench.python, "default")],
        env={**before, "OMP_NUM_THREADS": "1", **added},
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
