"""Makes the inputs of scripts/golden: spools of programs recorded here, and traces of others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
WORKLOADS = REPOSITORY / "tests" / "workloads"
# Each ends the recorder where a spool would become a trace; what it recorded stays.
KILL = "kill -9 $PPID"
# A ring that nobody empties is full at once: the second run has losses before it and after.
STALL = f"kill -STOP $PPID; {{program}}100000; kill -CONT $PPID; sleep 1; {{program}}1000; {KILL}"


def make(out: Path) -> None:
    """Record the programs and copy the traces. Needs root, and what scripts/test installs."""
    if os.geteuid() != 0:
        raise SystemExit("error: recording needs root\nhint: sudo scripts/golden inputs OUT")
    if out.exists():
        raise SystemExit(f"error: {out} exists already\nhint: name another folder")
    out.mkdir(parents=True)
    python = sys.executable
    _record(out / "demo.spool", f"{python} {WORKLOADS}/ppo_cartpole.py --seconds 6; {KILL}")
    sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests/support")]
    import cuda_fakes

    _record(
        out / "gpu.spool",
        f"{python} {WORKLOADS}/planted_gpu.py streams 40; {KILL}",
        **cuda_fakes.environment(),
    )
    pairs = f"{python} {WORKLOADS}/pingpong.py --round-trips "
    _record(out / "losses.spool", STALL.format(program=pairs), "--ring-mib=1")
    for name in ("kineto/alexnet.json.gz", "kineto/triton_example.json.gz", "nsys/mock.sqlite"):
        shutil.copy(REPOSITORY / "tests/data" / name, out)


def _record(spool: Path, shell: str, *options: str, **variables: str) -> None:
    trace = spool.with_suffix(".duckdb")
    subprocess.run(
        [
            sys.executable, "-m", "rlscope_trace", "-o", str(trace), *options,
            "--", "sh", "-c", shell,
        ],
        env={**os.environ, **variables}, check=False,
    )  # fmt: skip
    kept = Path(f"{trace}.spool")
    if not kept.exists():
        raise SystemExit(f"error: {shell} was not recorded\nhint: rlscope-trace doctor")
    kept.rename(spool)
