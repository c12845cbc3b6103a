"""Recordings that a service holds for users: a folder for each, below that of its user.

    FOLDER/UID/TICKET/started.json      how its recorder is found again, when that records
    FOLDER/UID/TICKET/pids.json         the pids here of processes that the user calls otherwise
    FOLDER/UID/TICKET/trace.duckdb      what nobody has fetched yet

All that is known of a recording is there, so that a service that is started anew goes on.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_trace.errors import TracerError
from rlscope_trace.fleet import recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TRACE = "trace.duckdb"

_STARTED, _PIDS = "started.json", "pids.json"
_TICKET = re.compile(r"[0-9a-f]{32}", re.ASCII)
_MOST_RECORDINGS, _MOST_PIDS = 4, 20_000
# A recorder that is not there after so long was given up.
_STARTING_S = 120.0


class RefusedError(TracerError):
    """What was asked is not done."""


@dataclass(slots=True)
class Held:
    """The recordings of all users."""

    folder: Path
    most_bytes: int
    """Of a user."""
    say: Callable[[str], None]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reserve(self, uid: int) -> Path:
        """Return a new folder for a recording. Raises RefusedError where a user has too many."""
        with self._lock:
            self._make_room(uid)
            folder = self.folder / str(uid) / secrets.token_hex(16)
            folder.mkdir(mode=0o700, parents=True)
            return folder

    def find(self, uid: int, ticket: object) -> recorder.Started:
        """Return the recorder of a ticket. Raises RefusedError where the user has no such one."""
        if isinstance(ticket, str) and _TICKET.fullmatch(ticket) is not None:
            started = _started(self.folder / str(uid) / ticket)
            if started is not None:
                return started
        raise RefusedError("no such recording")

    def is_full(self, uid: int) -> bool:
        """Tell whether what is held for a user takes more room than it may."""
        found = 0
        for path in (self.folder / str(uid)).rglob("*"):
            with suppress(OSError):
                found += path.lstat().st_blocks * 512
        return found > self.most_bytes

    def _make_room(self, uid: int) -> None:
        """Keep the newest traces that nobody took, and so many recordings of a user at once."""
        running, ended = 0, []
        for folder in (self.folder / str(uid)).glob("*"):
            started, changed_s = _started(folder), folder.stat().st_mtime
            if started is None and time.time() - changed_s > _STARTING_S:
                self._remove(uid, folder)
            elif started is None or recorder.runs(started):
                running += 1
            else:
                ended.append((changed_s, folder))
        if running >= _MOST_RECORDINGS:
            raise RefusedError(
                f"{running} recordings of user {uid} are running, no more are allowed",
                hint="they save by themselves soon after nobody asks after them",
            )
        ended.sort()
        while len(ended) >= _MOST_RECORDINGS or (ended and self.is_full(uid)):
            self._remove(uid, ended.pop(0)[1])
        if self.is_full(uid):
            raise RefusedError(
                f"what is held for user {uid} takes too much room", hint="fleet serve --user-gib"
            )

    def _remove(self, uid: int, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.say(f"user {uid}: {folder} was not taken and is removed")


def keep(started: recorder.Started) -> None:
    """Write down how a recorder is found again. Raises OSError."""
    _write(Path(started.folder) / _STARTED, asdict(started))


def known_pids(folder: Path, seen: Mapping[int, int]) -> dict[int, int]:
    """Return the pids here of all processes that were ever seen, and remember these, too."""
    known = {}
    with suppress(OSError, ValueError, TypeError, AttributeError):
        known = {int(pid): here for pid, here in json.loads((folder / _PIDS).read_text()).items()}
    found = {**known, **seen}
    if found != known and len(found) <= _MOST_PIDS:
        _write(folder / _PIDS, found)
    return found


def forget(started: recorder.Started) -> None:
    """Remove a recording. Its user may still have the trace open: the room is free all the same."""
    with suppress(OSError):
        os.truncate(started.output, 0)
    recorder.forget(started)


def _started(folder: Path) -> recorder.Started | None:
    try:
        return recorder.Started(**json.loads((folder / _STARTED).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, what: Mapping[Any, Any]) -> None:
    written = path.with_name(f"{path.name}.{threading.get_ident()}")
    written.write_text(json.dumps(what))
    written.replace(path)
