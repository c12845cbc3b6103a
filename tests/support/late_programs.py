"""Starts the programs that tests of late attach attach to, and talks to them."""

import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "workloads" / "late_target.c"
DEADLINE_S = 30.0


def compiler() -> str | None:
    """Return a C compiler, if this machine has one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compile_c(source: Path, output: Path, *options: str) -> Path:
    """Compile one C file; its warnings are not the subject."""
    command = compiler()
    assert command is not None
    made = subprocess.run(
        [command, "-O2", "-o", output, source, "-lpthread", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return output


class Program:
    """A running program that says "ready" and then does what it must not be disturbed in."""

    def __init__(
        self, *command: str | Path, environment: Mapping[str, str] | None = None, user: int = 0
    ) -> None:
        self.process = subprocess.Popen(
            [os.fspath(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environment is None else dict(environment),
            user=user,
            text=True,
        )
        self.pid = self.process.pid

    def readline(self) -> str:
        """Return the next line without its end; fail at the deadline."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(DEADLINE_S), f"no line from pid {self.pid}"
        return self.process.stdout.readline().rstrip("\n")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> str:
        """Wait for its end, which must be a good one, and return its last line."""
        output, errors = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0, f"{self.process.returncode}: {errors}"
        assert errors == ""
        return output.splitlines()[-1] if output else ""

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        self.process.wait()


def python(text: str, environment: Mapping[str, str] | None = None) -> Program:
    """Start a Python program from its text."""
    return Program(sys.executable, "-c", text, environment=environment)


def wait_for_syscall(pid: int, tid: int | None = None) -> None:
    """Return once a thread waits in a system call; fail at the deadline."""
    path = Path(f"/proc/{pid}/task/{tid or pid}/syscall")
    end = time.monotonic() + DEADLINE_S
    while path.read_text().startswith(("running", "-1")):
        assert time.monotonic() < end, f"pid {pid} does not come to rest"
        os.sched_yield()
