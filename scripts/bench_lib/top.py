"""What `top` costs while it shows a program with four workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench_lib.figure import Figure

if TYPE_CHECKING:
    from bench_lib.recorder import Bench

BUDGET_PERCENT = 1.5
_PROGRAM = Path(__file__).parent / "four_workers.py"
# Each message is two cycles there and back: 10,000 records a second, samples besides.
_MESSAGES_PER_S = 5000
# Of the first seconds, in which it finds what there is, nothing is counted.
_SETTLE = 5


def measure(bench: Bench) -> list[Figure]:
    """Return the recorder's CPU time by what it says itself, and how much it recorded."""
    command = [sys.executable, str(_PROGRAM), str(_MESSAGES_PER_S)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert program.stdout is not None
        program.stdout.readline()
        views = _views(bench, program.pid)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    return [
        Figure("top, of a CPU", "%", tuple(100 * v["recorder"] for v in views), BUDGET_PERCENT),
        Figure("records", "/s", tuple(v["records_per_s"] for v in views)),
        Figure("lost", "records", (views[-1]["lost"],), 0),
    ]


def _views(bench: Bench, pid: int) -> list[dict[str, float]]:
    done = subprocess.run(
        [
            bench.recorder, "top", "--pid", str(pid), "--format", "json",
            "-n", str(bench.runs + _SETTLE), "-o", str(bench.trace("top")),
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()][_SETTLE:]
