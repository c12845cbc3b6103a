"""Names of files for readers that open by name, as DuckDB and SQLite do.

Whoever else may change a file, its folder or a link on the way could put a pipe in its place, or
hold a lease on it, while it is opened: then nothing ends the waiting, Ctrl-C neither.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import secrets
import stat
import tempfile
from collections import deque
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from rlscope_analysis.errors import TraceError
from rlscope_analysis.foreign_file import open_regular
from rlscope_analysis.spill import spill_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_COPIED_BYTES = 4 << 30
# What it takes to look at each part of a path; only Linux has it.
_PATH_ONLY = getattr(os, "O_PATH", 0)
_LOOK = _PATH_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# As many as the OS kernel follows.
_MOST_LINKS = 40


@contextmanager
def name_of_ours(path: Path, *, beside: Sequence[str]) -> Iterator[Path]:
    """Yield a name of a file that leads nowhere else, whatever others do, for who opens by names.

    beside: what its reader takes for a part of it: suffixes of names. Nobody can add one there.
    Raises TraceError where one is there already and others can change it, OSError.
    """
    if is_ours_alone(path):
        yield path
        return
    for suffix in beside:
        if os.path.lexists(f"{path}{suffix}"):
            raise TraceError(f"{path}{suffix} would be read as a part of it", hint=_alone(path))
    # What only we can change needs no copy, but a name in a folder where nobody can add anything.
    own = (_linked(path) if is_ours_alone(path, beside=False) else None) or _copied(path)
    try:
        yield own
    finally:
        own.unlink()


def _alone(path: Path) -> str:
    return f"copy {path} alone to a folder of yours, and read it there"


def is_ours_alone(path: Path, *, beside: bool = True) -> bool:
    """Tell whether the file, and every folder and link that leads to it, is ours or root's.

    beside=False: though others may put something beside it, as in /tmp. Raises OSError.
    """
    if not _PATH_ONLY:
        return True
    ahead, links = deque(path.absolute().parts[1:]), 0
    at = os.open("/", _LOOK)
    try:
        while ahead and _is_closed(os.fstat(at), to_add=beside and len(ahead) == 1):
            entry = os.open(ahead.popleft(), _LOOK, dir_fd=at)
            if stat.S_ISLNK(os.fstat(entry).st_mode) and _is_ours(entry):
                target = PurePath(os.readlink("", dir_fd=entry))
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
                ahead.extendleft(reversed([part for part in target.parts if part != "/"]))
                os.close(entry)
                entry = os.open("/", _LOOK) if target.is_absolute() else os.dup(at)
            os.close(at)
            at = entry
        return not ahead and _is_ours(at)
    finally:
        os.close(at)


def _is_ours(descriptor: int) -> bool:
    return os.fstat(descriptor).st_uid in (0, os.geteuid())


def _is_closed(folder: os.stat_result, *, to_add: bool) -> bool:
    """Tell whether nobody else can take away what is ours, or, `to_add`, put anything there."""
    if folder.st_uid not in (0, os.geteuid()):
        return False
    if folder.st_mode & stat.S_ISVTX and not to_add:
        return True
    is_open = folder.st_mode & stat.S_IWOTH
    return not is_open and not (folder.st_mode & stat.S_IWGRP and _has_others(folder.st_gid))


@cache
def _has_others(group: int) -> bool:
    """Tell whether a group is more than that of one user, as Debian makes one for each."""
    try:
        found, own = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return True
    members = {*found.gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == group)}
    # Of root's, whoever has an id without a name may be one, in a container.
    return found.gr_name != own or group == 0 or not {own}.issuperset(members)


def _linked(path: Path) -> Path | None:
    """Return another name of the file in a folder of ours; None: on another file system."""
    folder = spill_directory()
    if folder is None:
        return None
    own = folder / secrets.token_hex(8)
    try:
        own.hardlink_to(path.resolve())
    except OSError:
        return None
    return own


def _copied(path: Path) -> Path:
    """Return a copy in a folder of ours. Raises TraceError, OSError."""
    folder = spill_directory()
    with open_regular(path) as source:
        if folder is None or os.fstat(source.fileno()).st_blocks * 512 > _MOST_COPIED_BYTES:
            raise TraceError(f"others can change {path} while it is read", hint=_alone(path))
        descriptor, name = tempfile.mkstemp(dir=folder)
        try:
            before = os.fstat(source.fileno())
            copy_file(source.fileno(), descriptor, most_bytes=_MOST_COPIED_BYTES)
            if _state(os.fstat(source.fileno())) != _state(before):
                # Locks of a writer hold back who opens the file, not who copies it.
                raise TraceError(
                    f"{path} is being written by another program",
                    hint="try again when it has finished",
                )
        except BaseException:
            Path(name).unlink()
            raise
        finally:
            os.close(descriptor)
    return Path(name)


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def copy_file(source: int, target: int, *, most_bytes: int) -> None:
    """Copy a file with its holes: so many bytes besides, whatever it grows by. OSError."""
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    at, left = 0, most_bytes
    while left > 0:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return
        end = min(os.lseek(source, at, os.SEEK_HOLE), size, at + left)
        os.lseek(target, at, os.SEEK_SET)
        while at < end and (sent := os.sendfile(target, source, at, end - at)):
            at, left = at + sent, left - sent
        if at < end or at >= size:
            return
