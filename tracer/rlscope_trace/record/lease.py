"""How long a recorder may go on without whoever started it, and what it is to trace besides.

A recorder on another machine must not record for ever when nobody is left to stop it. So there is a
file that holds until when it may: whoever keeps the recorder renews it, and when that time is over
the recorder saves what it has and ends. The same file names processes that came later.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from rlscope_trace.errors import UsageError
from rlscope_trace.spool.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MOST_BYTES = 1 << 16
_HINT = "rlscope-trace fleet record makes one"


def renew(path: Path, seconds: float, pids: Iterable[int] = ()) -> None:
    """Let the recorder go on for so long from now on. Raises OSError.

    pids: processes that are to be traced, too.
    """
    until_ns = time.monotonic_ns() + round(seconds * 1e9)
    # Several may renew it at once: each has a file of its own.
    written = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    written.write_text(" ".join(map(str, (until_ns, *pids))) + "\n")
    # Whole, or as before: it is read at any time.
    written.replace(path)


class Lease:
    """The lease of this recorder."""

    def __init__(self, path: Path) -> None:
        """Read it for the first time. Raises UsageError where there is none."""
        self._path = path
        self._known: set[int] = set()
        self._new: list[int] = []
        if self._until_ns() is None:
            raise UsageError(f"--lease {path} is no lease", hint=_HINT)

    def is_over(self) -> bool:
        """Tell whether nobody has renewed it in time; so is one that is gone."""
        until_ns = self._until_ns()
        return until_ns is None or time.monotonic_ns() >= until_ns

    def take_new_pids(self) -> list[int]:
        """Return processes that is_over() has seen named and that were not returned before."""
        new, self._new = self._new, []
        return new

    def _until_ns(self) -> int | None:
        try:
            with open_regular(self._path) as file:
                words = file.read(_MOST_BYTES).split()
            until_ns, *pids = map(int, words)
        except (OSError, ValueError):
            return None
        self._new += [pid for pid in pids if pid not in self._known]
        self._known.update(pids)
        return until_ns
