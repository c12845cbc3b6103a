"""Launch and attach on a terminal: Ctrl-C, the live line, and a program that owns the screen."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Workload
from recording import assert_conserved, query
from terminals import Terminal

pytestmark = pytest.mark.root

CTRL_C = b"\x03"
# Counts the SIGINTs it gets: after the first it waits for more.
COUNTER = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
print("waits, on a terminal:", sys.stdin.isatty(), sys.stdout.isatty(), flush=True)
signal.sigwait([signal.SIGINT])
count = 1
while signal.sigtimedwait([signal.SIGINT], 0.7):
    count += 1
print("interrupts:", count, flush=True)
sys.exit(5)
"""


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*arguments: str | Path) -> Terminal:
        made = Terminal(*arguments)
        opened.append(made)
        return made

    yield start
    for made in opened:
        made.close()


def test_ctrl_c_reaches_a_launched_program_once(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    trace = tmp_path / "trace.duckdb"
    screen = terminal("-o", trace, "--", sys.executable, "-c", COUNTER)
    screen.wait_for("waits, on a terminal: True True")
    screen.type(CTRL_C)
    screen.wait_for("interrupts: 1\r\n")
    assert screen.wait() == 5
    assert f"wrote {trace}:" in screen.shown
    # The screen was the program's own: no live line was drawn over it.
    assert "records/s" not in screen.shown
    assert query(trace, "SELECT exit_code FROM process") == [(5,)]
    assert_conserved(trace)


def test_ctrl_c_that_ends_a_launched_program(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    trace = tmp_path / "trace.duckdb"
    screen = terminal("-o", trace, "--", "sh", "-c", "echo waits; exec sleep 60")
    screen.wait_for("waits\r\n")
    screen.type(CTRL_C)
    assert screen.wait() == 128 + signal.SIGINT
    assert f"wrote {trace}:" in screen.shown
    assert query(trace, "SELECT exit_code FROM process") == [(128 + signal.SIGINT,)]


def test_a_launched_program_reads_the_terminal(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    screen = terminal("-o", tmp_path / "trace.duckdb", "--", "sh", "-c", "read x; echo got $x")
    screen.type(b"keys\n")
    screen.wait_for("got keys\r\n")
    assert screen.wait() == 0, screen.shown


def test_ctrl_c_ends_an_attached_recording(
    tmp_path: Path, terminal: Callable[..., Terminal], workload: Callable[..., Workload]
) -> None:
    trace = tmp_path / "trace.duckdb"
    target = workload("sleeper", "--sleeps=100000", "--sleep-ms=1", wait=True)
    screen = terminal("-o", trace, f"--pid={target.pid}")
    screen.wait_for("Ctrl-C stops and saves")
    target.go()
    screen.wait_for("records/s  1 processes  0 lost")
    screen.type(CTRL_C)
    assert screen.wait() == 0, screen.shown
    assert "stopped after" in screen.shown
    assert f"wrote {trace}:" in screen.shown
    assert target.process.poll() is None
    assert_conserved(trace)


def test_a_closed_stderr_changes_nothing(tmp_path: Path) -> None:
    trace, mark = tmp_path / "trace.duckdb", tmp_path / "mark"
    line = f'exec "$0" -m rlscope_trace -o {trace} -- touch {mark} 2>&-'
    done = subprocess.run(["sh", "-c", line, sys.executable], check=False, timeout=60)
    assert done.returncode == 0
    assert mark.exists()
    assert query(trace, "SELECT name FROM process") == [("touch",)]


def test_a_closed_stdout_is_no_traceback(tmp_path: Path) -> None:
    line = 'exec "$0" -m rlscope_trace --version >&-'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


GPU = {"CUDA_INJECTION64_PATH", "RLSCOPE_SESSION", "RLSCOPE_CUPTI", "RLSCOPE_CUDA_GRAPHS"}
OURS = GPU | {"NVTX_INJECTION64_PATH", "RLSCOPE_NVTX"}


@pytest.mark.parametrize(
    ("options", "added"),
    [(["--nvtx=off", "--cupti=off"], set()), (["--nvtx=off"], GPU), (["--no-auto"], OURS)],
)
def test_the_environment_is_the_users_own(
    tmp_path: Path, options: list[str], added: set[str]
) -> None:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    output = ["-o", str(tmp_path / "t.duckdb")]
    seen = subprocess.run(
        [sys.executable, "-m", "rlscope_trace", *output, *options, "--", "env"],
        env=kept,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = dict(line.split("=", 1) for line in seen.stdout.splitlines())
    assert {name for name in found if name not in kept} == added
    assert {name: value for name, value in found.items() if name in kept} == kept
