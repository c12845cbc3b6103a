"""A folder of this process alone, for what does not fit into memory; gone with the process."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

_PREFIX = "rlscope-trace-spill-"
# What is newer may not be held yet.
_AGE_S = 60


def spill_directory() -> Path | None:
    """Return the folder that connections of this process write long sorts to; None: there is none.

    It is made once, and goes with the process. Who gives up the right to write makes it before.
    """
    made = _made_once(os.getpid())
    return Path(made) if made else None


@cache
def _made_once(pid: int) -> str:
    """Make a folder that nobody else can look into or plant anything in; empty: there is none."""
    try:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        # Held as long as we live: whoever is killed leaves a folder that nobody holds.
        fcntl.flock(os.open(path, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_EX)
    except OSError:
        return ""
    atexit.register(_remove, path, pid)
    _remove_left_behind(Path(path).parent)
    return path


def _remove_left_behind(folder: Path) -> None:
    """Remove what killed processes of ours wrote there: it may be many gigabytes."""
    with suppress(OSError):
        for path in folder.glob(f"{_PREFIX}*"):
            found = path.lstat()
            if found.st_uid != os.geteuid() or time.time() - found.st_ctime < _AGE_S:
                continue
            left = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            except BlockingIOError:
                continue
            finally:
                os.close(left)


def _remove(path: str, pid: int) -> None:
    if pid == os.getpid():  # not in a child that was forked
        shutil.rmtree(path, ignore_errors=True)
