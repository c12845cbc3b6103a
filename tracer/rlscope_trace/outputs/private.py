"""Folders that nobody else can enter, made beside an output and named by their descriptor."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlscope_trace.errors import OutputExistsError
from rlscope_trace.outputs.trusted import LOOK_ONLY, closing, is_closed, path_of

_MODE = 0o700
# Of root, sticky, on a disk, and left alone for long: file-hierarchy(7).
_ELSEWHERE = "/var/tmp"
_PREFIX = "rlscope-trace-"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class PrivateFolder:
    """A folder of ours, open and locked; other recorders keep away from it until it is closed."""

    shown: Path
    """Its name as it was when it was made: for messages."""
    descriptor: int

    @property
    def path(self) -> Path:
        """Return a path that means this very folder, wherever it is moved.

        Without /proc it is the name: nobody but us can move it.
        """
        return path_of(self.descriptor) or self.shown

    def is_empty(self) -> bool:
        """Tell whether nothing is in it."""
        return not self._names()

    def clear(self) -> None:
        """Remove all that is in it. Raises OSError."""
        for name in self._names():
            if stat.S_ISDIR(os.lstat(name, dir_fd=self.descriptor).st_mode):
                shutil.rmtree(name, dir_fd=self.descriptor)
            else:
                os.unlink(name, dir_fd=self.descriptor)

    def _names(self) -> list[str]:
        return os.listdir(self.descriptor)  # noqa: PTH208 - pathlib knows no descriptors

    def close(self) -> None:
        """Let go of it; it may be closed already."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def make_private(parent: int, shown: Path) -> PrivateFolder:
    """Make a folder in an open one.

    Raises FileExistsError where something has the name, OSError where none can be made,
    NotOursError where somebody put another in its place.
    """
    os.mkdir(shown.name, _MODE, dir_fd=parent)
    return _opened(parent, shown, is_new=True)


def make_private_elsewhere() -> PrivateFolder:
    """Make a folder where nobody can put another in its place. Raises OSError."""
    _remove_stale()
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_ELSEWHERE))
    with closing(os.open(made.parent, LOOK_ONLY)) as parent:
        return _opened(parent, made, is_new=True)


def _remove_stale() -> None:
    """Remove what killed runs of ours left there."""
    with closing(os.open(_ELSEWHERE, LOOK_ONLY)) as parent:
        for left in Path(_ELSEWHERE).glob(f"{_PREFIX}*"):
            with suppress(OSError, OutputExistsError):
                _remove(open_private(parent, left), parent)


def _remove(folder: PrivateFolder, parent: int) -> None:
    try:
        if os.fstat(folder.descriptor).st_uid == os.geteuid():
            folder.clear()
            os.rmdir(folder.shown.name, dir_fd=parent)
    finally:
        folder.close()


def open_private(parent: int, shown: Path) -> PrivateFolder:
    """Open a folder that an earlier run of ours made.

    Raises OSError where it cannot be opened, NotOursError where it is not ours,
    OutputExistsError where another run has it.
    """
    return _opened(parent, shown, is_new=False)


def _opened(parent: int, shown: Path, *, is_new: bool) -> PrivateFolder:
    folder = PrivateFolder(shown, os.open(shown.name, _OPEN, dir_fd=parent))
    try:
        # Some file systems have neither owners nor modes: there the folder around it must do. A
        # sticky one does not: what anybody put there would pass for a folder of ours.
        if not _is_private(folder.descriptor) and not (
            is_closed(parent) and is_closed(folder.descriptor)
        ):
            raise NotOursError(shown)
        if is_new and not folder.is_empty():
            raise NotOursError(shown)
        _lock(folder)
    except BaseException:
        folder.close()
        raise
    return folder


class NotOursError(OutputExistsError):
    """Something else has the name of a folder of ours."""

    def __init__(self, shown: Path) -> None:
        super().__init__(
            f"{shown} is in the way: it is no folder of ours, or holds more than we put there",
            hint="move it away, or -o names another place",
        )


def _is_private(folder: int) -> bool:
    found = os.fstat(folder)
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _lock(folder: PrivateFolder) -> None:
    try:
        fcntl.flock(folder.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputExistsError(
            f"another recorder is writing {folder.shown}",
            hint="-o names another place for the trace",
        ) from None
    except OSError:
        # A file system without locks: as it would be without this one.
        return
