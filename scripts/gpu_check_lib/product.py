"""For the steps: rlscope-trace as its users call it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_check_lib.context import Context

_LIMIT_S = 90.0


def rlscope(
    context: Context, *arguments: str, limit_s: float = _LIMIT_S
) -> subprocess.CompletedProcess[str]:
    """Run a command of rlscope-trace; raises subprocess.TimeoutExpired."""
    import rlscope_trace

    # Of a package that is not installed, the place must be given; the program gets it too.
    place = Path(rlscope_trace.__file__).parents[1]
    more = {} if place.name.endswith("-packages") else {"PYTHONPATH": str(place)}
    return subprocess.run(
        [sys.executable, "-m", "rlscope_trace", *arguments], env=context.environment(more),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False,
    )  # fmt: skip


def start_recording(
    context: Context, trace: Path, program: str, *arguments: object, calibrates: bool = False
) -> subprocess.CompletedProcess[str]:
    """Record a program of ours from its start to its end."""
    return rlscope(
        context, "record", "-o", str(trace), "--progress", "never",
        *([] if calibrates else ["--no-calibrate"]), "--", *context.program(program, *arguments),
    )  # fmt: skip


def record(context: Context, name: str, program: str, *arguments: object) -> Path | None:
    """Record it into a file of that name; None where that failed, which is reported."""
    trace = context.folder / f"{name}.duckdb"
    done = start_recording(context, trace, program, *arguments)
    if done.returncode == 0 and trace.exists():
        return trace
    context.check(f"{name}: is recorded", False, done.stderr.strip()[-300:])
    return None
