"""Child processes that end with us, whatever they do: by time, by group, and by descent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PR_SET_CHILD_SUBREAPER = 36
# How long who is asked to end may take.
END_S = 5.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Done:
    """How a child process ended."""

    exit_code: int
    output: str
    """stdout and stderr, in the order they were written."""
    timed_out: bool
    wall_s: float


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind, so that it can be found."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(
    command: Sequence[str],
    log: Path,
    *,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """Run a command in a session of its own; end it and all it started when the time is over."""
    began_s = time.monotonic()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            env=dict(os.environ if environment is None else environment), start_new_session=True,
        )  # fmt: skip
        timed_out = False
        try:
            timed_out = not ends_within(process, limit_s)
        finally:
            end_descendants(keep=process.pid)
            process.wait()
    wall_s = time.monotonic() - began_s
    return Done(process.returncode, log.read_text(errors="replace"), timed_out, wall_s)


def ends_within(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Wait for a process for so long; return whether it ended."""
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def descendants() -> list[int]:
    """Return the pids of all living processes that descend from us."""
    table = _table()
    found: list[int] = []
    left = [os.getpid()]
    while left:
        parent = left.pop()
        children = [pid for pid, (of, state) in table.items() if of == parent and state not in "ZX"]
        found += children
        left += children
    return found


def end_descendants(*, keep: int = 0) -> list[int]:
    """End all processes that descend from us: a word first, then by force; return who needed that.

    A recorder that is asked to end saves its trace. keep: a child whose exit code somebody takes.
    """
    _signal(signal.SIGTERM)
    end_s = time.monotonic() + END_S
    while descendants() and time.monotonic() < end_s:
        _reap(keep)
        time.sleep(_POLL_S)
    forced = descendants()
    while descendants():
        _signal(signal.SIGKILL)
        _reap(keep)
        time.sleep(_POLL_S)
    _reap(keep)
    return forced


def _signal(number: int) -> None:
    for pid in descendants():
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _reap(keep: int) -> None:
    """Take the exit codes of those that were left to us."""
    for pid, (parent, state) in _table().items():
        if parent == os.getpid() and state == "Z" and pid != keep:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _table() -> dict[int, tuple[int, str]]:
    """Return parent and state of every process."""
    table = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError):
            # The name before it may hold anything, blanks and parentheses too.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            table[int(entry.name)] = (int(fields[1]), fields[0])
    return table
