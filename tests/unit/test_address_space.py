"""Too little address space is told before a library ends in the middle of being loaded."""

import os
import resource
import subprocess
import sys

import pytest

PROGRAM = "from rlscope_trace.cli import main; main()"
COMMANDS = (
    ("recover", "TRACE.spool"), ("import", "nsys", "FILE"), ("export", "chrome", "TRACE"),
    ("summarize", "TRACE"), ("explain", "TRACE"), ("sql", "TRACE", "FROM thread"),
)  # fmt: skip


@pytest.mark.parametrize("mebibytes", [200, 1200])
@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_too_little_is_told(command: tuple[str, ...], mebibytes: int) -> None:
    limit = mebibytes << 20
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        f"error: a trace takes 1.5 GiB of address space, and {mebibytes} MiB are allowed\n"
        "hint: ulimit -v unlimited\n"
    )
