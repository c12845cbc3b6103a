"""probes.jsonl of a spool: what was found in the target, what was probed, and what became of it."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rlscope_trace import _capture
from rlscope_trace.record.bounded import go_on
from rlscope_trace.spool.directory import PROBES_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable

# What the file may grow to, beyond twice of what was to be kept, before it is looked through.
_WORTH_BYTES = 1 << 18
# A full disk; and lines that somebody else, who is the same user, has changed.
_NOT_FORGOTTEN = (OSError, ValueError, TypeError, KeyError, AttributeError)


class ProbeLog:
    """Appends one JSON object per line, so that a kill costs the last line at most."""

    def __init__(self, directory: Path) -> None:
        self._space = _capture.DiskSpace(str(directory))
        self._path = directory / PROBES_FILE
        self._file: TextIO = self._path.open("x+")
        self._end_then = 0
        self._lock = threading.Lock()
        self.lost = 0
        """Lines that found no room on the disk."""

    def append(self, event: str, **facts: object) -> None:
        """Write one event; a full disk is no error here, the recorder tells of it anyway.

        Raises HeldUpError in a thread that was left behind.
        """
        go_on()
        line = json.dumps({"event": event, **facts}) + "\n"
        with self._lock:
            if not self._space.has_room(len(line)):
                self.lost += 1
                return
            try:
                self._file.write(line)
                self._file.flush()
            except OSError:
                self.lost += 1

    def forget_before(self, from_ns: int, alive: Iterable[int]) -> None:
        """Drop, now and then, what was reported before a time of processes that are no more.

        Of the others their titles but the last go, too. What tells of no process stays: a line for
        each function that is probed. A disk that is full leaves the file as it is.
        """
        with self._lock, suppress(*_NOT_FORGOTTEN):
            if self._file.tell() < 2 * self._end_then + _WORTH_BYTES:
                return
            written = Path(f"{self._path}.new")
            # What we wrote, whatever has the name by now.
            data = os.pread(self._file.fileno(), self._file.tell(), 0)
            kept = _kept(data.decode(), from_ns, set(alive))
            file = written.open("x+")
            try:
                file.write(kept)
                file.flush()
                written.replace(self._path)
            except OSError:
                file.close()
                written.unlink(missing_ok=True)
                raise
            self._file.close()
            self._file = file
            self._end_then = file.tell()

    def close(self) -> None:
        """Close the file; what it could not write before is lost."""
        try:
            self._file.close()
        except OSError:
            self.lost += 1


def _kept(text: str, from_ns: int, alive: set[int]) -> str:
    """Return the lines that still tell something."""
    lines = [(line, json.loads(line)) for line in text.splitlines(keepends=True)]
    last_title = {
        reported["pid"]: place for place, (_, reported) in enumerate(lines) if "title" in reported
    }
    return "".join(
        line
        for place, (line, reported) in enumerate(lines)
        if "pid" not in reported
        or reported.get("ts_ns", 0) >= from_ns
        or (
            reported["pid"] in alive
            and ("title" not in reported or last_title[reported["pid"]] == place)
        )
    )
