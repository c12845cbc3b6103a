"""What keeps a CPU as busy as two runs on it do, once one of them has ended.

Whichever ends last would have the CPU and its caches for itself from then on, and be faster than
the other was: most often the traced one, by what tracing adds. Programs that wait a lot leave each
other more of a CPU than this does.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench_lib.figure import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_SOURCE = Path(__file__).with_name("busy_caches.c")
# Seldom: whoever looks may do so on the CPU of the runs.
_LOOK_S = 0.02


class _Run(Protocol):
    def has_ended(self) -> bool: ...
    def niceness(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Companion:
    """A process that waits until it is needed."""

    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """Return that of the process."""
        return self.process.pid

    def begin(self) -> None:
        """Keep the CPU busy from now on."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()

    def check(self) -> None:
        """Raise BenchError if it has ended by itself."""
        if self.process.poll() is not None:
            raise BenchError(
                "the process that keeps the CPU busy has ended", hint="run the figure again"
            )

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@contextmanager
def companion(cpu: int) -> Iterator[Companion]:
    """Yield a process that waits to be of use; it is gone in the end."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "busy_caches"
        subprocess.run(["cc", "-O2", "-o", str(program), str(_SOURCE)], check=True)
        process = subprocess.Popen(
            [str(program), str(cpu)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        with process:
            waiting = Companion(process)
            try:
                # It has started when it says so: that takes no time of the runs.
                assert process.stdout is not None
                process.stdout.readline()
                yield waiting
            finally:
                waiting.end()


def step_in(other: Companion, runs: Sequence[_Run]) -> None:
    """Wait until all runs have ended, and from the end of the first on keep their CPU busy."""
    _wait_for(any, runs)
    for run in runs:
        # One that gives way to others would hardly go on otherwise.
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, other.pid, run.niceness())
    other.begin()
    _wait_for(all, runs)
    other.check()
    other.end()


def _wait_for(which: Callable[[Iterable[bool]], bool], runs: Sequence[_Run]) -> None:
    while not which(run.has_ended() for run in runs):
        time.sleep(_LOOK_S)
