"""A target whose memory and files answer to nobody: it cannot keep a recording from its end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import _duckdb
import pytest

from conftest import WORKLOADS, Workload
from recording import COMMAND, USER, assert_conserved, query, until
from rlscope_trace import _capture
from rlscope_trace.record.bounded import Bounded, HeldUpError, has_left_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TARGET = WORKLOADS / "served_target.py"
# A file of code that every machine with Python has.
LIBRARY = _capture.__file__


@pytest.fixture
def served() -> Iterator[Callable[[int, str], Workload]]:
    """Return `served(user, kind)`: a program that is held up by a file system of this user's."""
    started: list[Workload] = []

    def start(user: int, kind: str) -> Workload:
        command = [sys.executable, str(TARGET), LIBRARY, str(user), kind, "x" * 30_000]
        started.append(Workload(command))
        assert started[-1].readline() == "ready"
        return started[-1]

    yield start
    for one in started:
        one.close()


def attach(target: Workload, trace: Path, *prefix: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, *COMMAND, "--pid", str(target.pid), "-d", "1", "--no-calibrate",
         "-o", str(trace)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.root
@pytest.mark.parametrize(("user", "kind"), [(USER, "file"), (USER, "arguments"), (0, "file")])
def test_what_a_program_serves_is_not_asked_for(
    served: Callable[[int, str], Workload], tmp_path: Path, user: int, kind: str
) -> None:
    target = served(user, kind)
    recorder = attach(target, tmp_path / "trace.duckdb")
    # Whoever asks waits until the target ends.
    _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, said
    assert "Traceback" not in said
    assert_conserved(tmp_path / "trace.duckdb")
    [(command,)] = query(
        tmp_path / "trace.duckdb", "SELECT command FROM process WHERE pid = ?", [target.pid]
    )
    assert (str(TARGET) in (command or "")) == (kind == "file")


@pytest.mark.root
def test_a_folder_that_a_program_serves_is_not_looked_into(
    served: Callable[[int, str], Workload], tmp_path: Path
) -> None:
    target = served(0, "folder")
    # Where the folder is mounted for the recorder, too.
    recorder = attach(
        target, tmp_path / "trace.duckdb", "nsenter", f"--mount=/proc/{target.pid}/ns/mnt"
    )
    _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, said
    assert_conserved(tmp_path / "trace.duckdb")


def test_a_thread_that_only_waits_is_left_behind() -> None:
    reader, writer = os.pipe()
    before = threading.active_count()
    bounded = Bounded(patience_s=0.2)
    assert bounded.call(lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        bounded.call(lambda: 1 / 0)
    with pytest.raises(HeldUpError):
        bounded.call(lambda: os.read(reader, 1))
    assert has_left_behind()
    # Another one does the next.
    assert bounded.call(lambda: 2) == 2
    bounded.close()
    os.write(writer, b"x")
    until(lambda: threading.active_count() == before, what="the threads to end")
    os.close(reader)
    os.close(writer)


def test_a_thread_that_works_is_waited_for() -> None:
    bounded = Bounded(patience_s=0.01)
    assert bounded.call(lambda: sum(range(20_000_000))) > 0
    bounded.close()


def test_a_scan_at_low_priority_is_waited_for() -> None:
    """A thread of its own scans, and the one that waits for it does nothing."""
    library = _duckdb.__file__
    scan = _capture.PythonScan(os.getpid())
    bounded = Bounded(patience_s=0.01)
    assert bounded.call(lambda: scan.entry_points([library]))["points"]
    bounded.close()
    assert not has_left_behind()


def test_a_thread_of_a_recorder_that_stands_behind_already_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "getpriority", lambda *_: 15)
    monkeypatch.setattr(os, "setpriority", refuse)
    bounded = Bounded(nice=10)
    assert bounded.call(lambda: 1) == 1
    bounded.close()
