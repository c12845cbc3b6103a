"""Which processes the monitor takes to have ended: those that have, however a look ends."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from rlscope_trace.record.probes import process_monitor as module
from rlscope_trace.record.probes.log import ProbeLog
from rlscope_trace.record.probes.process import Process, address_space
from rlscope_trace.record.probes.process_monitor import ProcessMonitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def monitor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ProcessMonitor]:
    """Return one that follows this process, and cannot read any."""

    def refuse(_pid: int) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(module._capture, "PythonScan", refuse)
    made: ProcessMonitor = object.__new__(ProcessMonitor)
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


def test_a_process_that_cannot_be_read_is_looked_at_again(monitor: ProcessMonitor) -> None:
    (process,) = monitor._processes.values()
    process.note_program(address_space(process.pid))
    process.interpreter = (1, 2)
    process.mappings = (("file", 1, 2, 3, 4, 5),)
    monitor._look(1_000, process)
    assert monitor.pids() == [os.getpid()]
    assert process.due_ns > 1_000
    assert process.interpreter is None
    # What was seen before the look was broken off is taken for new the next time.
    assert process.update([("file", 1, 2, 3, 4, 5)], 2_000)


def test_one_that_has_ended_is_forgotten_with_its_time(monitor: ProcessMonitor, ended: int) -> None:
    process = Process(ended, is_new=False, cpu_ns=7)
    monitor._processes[ended] = process
    monitor._look(1_000, process)
    assert monitor.pids() == [os.getpid()]
    assert monitor._gone_cpu_ns == 7


def test_a_look_that_is_cancelled_says_nothing_of_the_process(
    monitor: ProcessMonitor, ended: int
) -> None:
    monitor._processes[ended] = Process(ended, is_new=False)
    monitor._stop.set()
    for process in list(monitor._processes.values()):
        monitor._look(1_000, process)
    assert monitor.pids() == [os.getpid(), ended]
