"""probes.jsonl of a spool: what was found in the target, what was probed, and what became of it."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, TextIO

from rlscope_trace import _capture
from rlscope_trace.record.bounded import go_on
from rlscope_trace.spool.directory import PROBES_FILE

if TYPE_CHECKING:
    from pathlib import Path


class ProbeLog:
    """Appends one JSON object per line, so that a kill costs the last line at most."""

    def __init__(self, directory: Path) -> None:
        self._space = _capture.DiskSpace(str(directory))
        self._file: TextIO = (directory / PROBES_FILE).open("x")
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

    def close(self) -> None:
        """Close the file; what it could not write before is lost."""
        try:
            self._file.close()
        except OSError:
            self.lost += 1
