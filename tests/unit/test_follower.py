"""Which processes the follower takes to have ended: those that have, however a look ends."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from rlscope_trace.record.instruments import follower as module
from rlscope_trace.record.instruments.follower import Follower
from rlscope_trace.record.instruments.log import ProbeLog
from rlscope_trace.record.instruments.process import Process, address_space

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def follower(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Follower]:
    """Return one that follows this process, and cannot read any."""

    def refuse(_pid: int) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(module._capture, "PythonScan", refuse)
    made: Follower = object.__new__(Follower)
    made._stop = threading.Event()
    made._log = ProbeLog(tmp_path)
    made._drain = None
    made._gone_cpu_ns = 0
    made._processes = {os.getpid(): Process(os.getpid(), is_new=False)}
    yield made
    made._log.close()


@pytest.fixture
def ended() -> Iterator[int]:
    """Return the pid of a process that has ended and that nobody has waited for."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid


def test_a_process_that_cannot_be_read_is_looked_at_again(follower: Follower) -> None:
    (process,) = follower._processes.values()
    process.note_program(address_space(process.pid))
    process.interpreter = (1, 2)
    process.mappings = (("file", 1, 2, 3, 4, 5),)
    follower._look(process, 1_000)
    assert follower.pids() == [os.getpid()]
    assert process.due_ns > 1_000
    assert process.interpreter is None
    # What was seen before the look was broken off is taken for new the next time.
    assert process.update([("file", 1, 2, 3, 4, 5)], 2_000)


def test_one_that_has_ended_is_forgotten_with_its_time(follower: Follower, ended: int) -> None:
    process = Process(ended, is_new=False, cpu_ns=7)
    follower._processes[ended] = process
    follower._look(process, 1_000)
    assert follower.pids() == [os.getpid()]
    assert follower._gone_cpu_ns == 7


def test_a_look_that_is_cancelled_says_nothing_of_the_process(
    follower: Follower, ended: int
) -> None:
    follower._processes[ended] = Process(ended, is_new=False)
    follower._stop.set()
    for process in list(follower._processes.values()):
        follower._look(process, 1_000)
    assert follower.pids() == [os.getpid(), ended]
