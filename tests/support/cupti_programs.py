"""Runs programs with the shim in their driver, and a recorder's place taken by GpuRecords."""

import os
import subprocess
import sys
from typing import Any

from conftest import DEADLINE_S
from cuda_fakes import environment, run_calls
from cupti_ring import GpuRecords, Status

# The versions that drivers give themselves: without a runtime, they decide which CUPTI is used.
DRIVERS = {"11.8": "11080", "12.9": "12090", "13.0": "13000", None: "13000"}
# What is recorded by default, as CUPTI numbers it.
KINDS = {1, 2, 4, 5, 9, 10, 17, 22, 37, 38, 51}


def record(
    *arguments: str, release: str | None = "13.0", **variables: str
) -> tuple[GpuRecords, dict[str, Any]]:
    """Run cuda_calls to its end, which has to be as good as without the shim."""
    with GpuRecords() as records:
        reported = {"FAKECUDA_DRIVER": DRIVERS[release], **environment(release)}
        reported |= records.environment(**variables)
        truth, code = run_calls(*arguments, environment=reported)
    assert (code, truth["right"], truth["error"]) == (0, True, 0)
    return records, truth


def status(release: str | None = "13.0", **variables: str) -> Status:
    records, _ = record("--launches=2", release=release, **variables)
    return records.status()


def run_python(text: str, *arguments: str, **variables: str) -> tuple[GpuRecords, str]:
    """Run a Python program with the fakes in reach; return its output."""
    with GpuRecords() as records:
        reported = {**os.environ, **environment("13.0"), "RLSCOPE_SESSION": records.session}
        done = subprocess.run(
            [sys.executable, "-c", text, *arguments], env={**reported, **variables}, check=True,
            stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S,
        )  # fmt: skip
    return records, done.stdout
