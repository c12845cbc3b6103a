"""Files of its own for the untraced run beside a traced one: those whose functions are probed.

A probe belongs to a file and stops every process that runs it; who is not traced pays for the trap
all the same. So the untraced run gets copies, which it alone sees in the places of the files.

The files, and the folders they lie in, may be the user's, who could put others in their places: a
copy is of what that user may read, is never more than the file was, and is mounted on that file or
on nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.privileges import acting_as

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_trace.privileges import Identity

_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
# Set-user-ID and the like are not copied.
_PERMISSIONS = 0o777

_libc = ctypes.CDLL(None, use_errno=True)
_libc.unshare.argtypes = [ctypes.c_int]
_libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_void_p]


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy, and the file it is of: open, so that no other one gets its number."""

    path: str
    source: int


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The copies there are, by the place where the program looks for them."""

    directory: Path
    """For the copies: nobody else may enter it."""
    identity: Identity | None = None
    """Whom the program runs as; None: as we do."""
    copies: dict[str, _Copy] = field(default_factory=dict)

    def add(self, files: Iterable[str]) -> None:
        """Copy those that are not there yet; what cannot be copied is left out."""
        for file in files:
            if file not in self.copies:
                with suppress(OSError):
                    self.copies[file] = self._copied(file)

    def _copied(self, file: str) -> _Copy:
        if os.statvfs(self.directory).f_flag & os.ST_NOEXEC:
            raise OSError(errno.EACCES, "nothing in the folder of the copies may be executed")
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
        with acting_as(self.identity):
            source = os.open(file, flags)
        try:
            return _Copy(self._copy_of(source), source)
        except OSError:
            os.close(source)
            raise

    def _copy_of(self, source: int) -> str:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a file")
        target, path = tempfile.mkstemp(dir=self.directory)
        try:
            _fill(target, source, status)
        except OSError:
            # A part of it would only take room.
            Path(path).unlink()
            raise
        return path

    def enter(self) -> None:
        """Let this process see the copies, and become the user: between fork and exec, by root.

        Raises OSError where that is not allowed, or another file is in the place of one.
        """
        _check(_libc.unshare(_CLONE_NEWNS))
        # Else what is mounted would be seen everywhere.
        _check(_libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None))
        for place, copy in self.copies.items():
            fd = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            if not os.path.samestat(os.fstat(fd), os.fstat(copy.source)):
                raise OSError(errno.ESTALE, "another file is in its place", place)
            at = f"/proc/self/fd/{fd}".encode()
            _check(_libc.mount(os.fsencode(copy.path), at, None, _MS_BIND, None))
            os.close(fd)
        if self.identity is not None:
            os.setgroups(self.identity.groups)
            os.setgid(self.identity.gid)
            os.setuid(self.identity.uid)


def _fill(target: int, source: int, status: os.stat_result) -> None:
    """Make an open file a copy of another one, whose status it gets; closes it."""
    with os.fdopen(target, "wb") as writing, os.fdopen(source, "rb", closefd=False) as reading:
        shutil.copyfileobj(reading, writing, 1 << 20)
        writing.flush()
        # Else it is written while the next pair runs.
        os.fsync(target)
        os.fchown(target, status.st_uid, status.st_gid)
        os.fchmod(target, status.st_mode & _PERMISSIONS)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def may_mount(directory: Path) -> bool:
    """Tell whether a run can have files of its own, by trying; containers may forbid it."""
    with (
        tempfile.TemporaryDirectory(dir=directory) as scratch,
        tempfile.NamedTemporaryFile(dir=scratch) as file,
    ):
        own = OwnFiles(Path(scratch))
        own.add([file.name])
        try:
            subprocess.run([sys.executable, "-I", "-S", "-c", ""], preexec_fn=own.enter, check=True)
        except subprocess.SubprocessError:
            return False
        finally:
            for copy in own.copies.values():
                os.close(copy.source)
        return bool(own.copies)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
