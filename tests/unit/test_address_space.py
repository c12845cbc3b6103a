"""Limits that a library would end by, in the middle of being loaded, are told before."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from trace_builder import TraceBuilder, run

PROGRAM = "from rlscope_trace.cli import main; main()"
COMMANDS = (
    ("recover", "TRACE.spool"), ("import", "nsys", "FILE"), ("export", "chrome", "TRACE"),
    ("summarize", "TRACE"), ("explain", "TRACE"), ("sql", "TRACE", "FROM thread"),
)  # fmt: skip


def limited(kind: int, limit: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *command],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(kind, (limit, limit)),
    )  # fmt: skip


@pytest.mark.parametrize("mebibytes", [200, 1200])
@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_too_little_is_told(command: tuple[str, ...], mebibytes: int) -> None:
    done = limited(resource.RLIMIT_AS, mebibytes << 20, *command)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: a trace takes 1.5 GiB of address space, and {mebibytes} MiB are allowed\n"
        "hint: ulimit -v unlimited\n"
    )


def test_stacks_that_are_too_small_are_told() -> None:
    done = limited(resource.RLIMIT_STACK, 128 << 10, "summarize", "TRACE")
    assert done.returncode == 1
    assert done.stderr == (
        "error: a trace takes stacks of 256 KiB, and 128 KiB are allowed\nhint: ulimit -s 8192\n"
    )


def test_files_that_cannot_be_opened_are_told(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.thread(builder.process(pid=1), states=[run(5)])
    limit = 8
    done = limited(resource.RLIMIT_NOFILE, limit, "report", str(builder.write()))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "\nhint: ulimit -n " in done.stderr
