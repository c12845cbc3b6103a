"""What a recorder leaves behind: programs in the OS kernel, processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from soak_lib.home import FailureError, SoakError

if TYPE_CHECKING:
    from collections.abc import Callable

_GONE_S = 20


def until(condition: Callable[[], object], what: str, deadline_s: float) -> None:
    """Ask until it is true; FailureError at the deadline."""
    end_s = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end_s:
            raise FailureError(f"not within {deadline_s:.0f} s: {what}")
        time.sleep(0.005)


def objects(kind: str) -> set[int]:
    """Return the ids of the programs, maps or links (prog, map, link) that the OS kernel holds."""
    try:
        listing = subprocess.run(
            ["bpftool", "--json", kind, "show"], capture_output=True, timeout=60, check=True
        )
    except FileNotFoundError:
        raise SoakError("bpftool is not there", "apt-get install bpftool") from None
    return {int(found["id"]) for found in json.loads(listing.stdout or b"[]")}


def held_by(pid: int | str, kind: str) -> set[int]:
    """Return the ids of the programs, maps or links that a process has open."""
    held = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
            with suppress(OSError):
                held |= {
                    int(line.split()[1])
                    for line in entry.read_text().splitlines()
                    if line.startswith(f"{kind}_id:")
                }
    return held


def held_objects(pid: int) -> dict[str, set[int]]:
    """Return what a process holds in the OS kernel, by kind."""
    return {kind: held_by(pid, kind) for kind in ("prog", "map", "link")}


def require_gone(held: dict[str, set[int]]) -> None:
    """Wait until nothing of it is left in the OS kernel. Ids are not used twice."""
    for kind, ids in held.items():
        if ids:
            until(
                lambda kind=kind, ids=ids: not ids & objects(kind),  # type: ignore[misc]
                f"each {kind} of the recorder is gone from the OS kernel", _GONE_S,
            )  # fmt: skip


def processes_with(word: str) -> set[int]:
    """Return the processes with a word in the environment that they were started with."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word.encode() in (entry / "environ").read_bytes():
                found.add(int(entry.name))
    return found


def kill_all(word: str) -> None:
    """End the processes with a word of our own in their environment."""
    while found := processes_with(word):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def of_recorder(word: str, recorder: str) -> set[int]:
    """Return the recorder with this word in its environment, and the processes that help it.

    The program that it launched has the word, too, but not the recorder in its command line.
    """
    return {pid for pid in processes_with(word) if recorder.encode() in _command_line(pid)}


def require_ended(word: str, recorder: str) -> None:
    """Wait until these have ended."""
    until(
        lambda: not of_recorder(word, recorder), "every process of the recorder has ended", _GONE_S
    )


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
