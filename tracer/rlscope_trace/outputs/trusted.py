"""Opens folders and files by paths that others have a hand in: no link of theirs is followed."""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

# As many as the OS kernel follows.
_MAX_LINKS = 40
# Only Linux opens what may not be read, and links; elsewhere a pipe at least is not waited for.
LOOK_ONLY = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
_LOOK = LOOK_ONLY | os.O_NOFOLLOW
_DESCRIPTORS = Path("/proc/self/fd")


class ForeignLinkError(OSError):
    """A link on the way belongs to another user, who could lead us anywhere."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ELOOP, f"{path} is a link of another user", os.fspath(path))


def path_of(descriptor: int) -> Path | None:
    """Return a path that means what is open, whatever becomes of its name; None without /proc."""
    path = _DESCRIPTORS / str(descriptor)
    return path if os.path.lexists(path) else None


def open_folder(path: Path) -> int:
    """Open a folder; return a descriptor that stands for it whatever becomes of its name.

    Links on the way are followed where they belong to root or to us. Raises OSError.
    """
    looked = _look(path)
    with closing(looked):
        if not stat.S_ISDIR(os.fstat(looked).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
        try:
            # For reading, so that it can be synced; a folder may be closed to that.
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=looked)
        except PermissionError:
            return os.dup(looked)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are not there. Raises OSError.

    The same links are followed.
    """
    missing: list[str] = []
    while (at := _opened(path)) is None:
        missing.append(path.name)
        path = path.parent
    try:
        for name in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=at)
            at = _step(at, os.open(name, _LOOK | os.O_DIRECTORY, dir_fd=at))
    finally:
        os.close(at)


def _opened(folder: Path) -> int | None:
    try:
        return open_folder(folder)
    except FileNotFoundError:
        return None


def open_existing(path: Path, flags: int) -> int:
    """Open a pipe or a device that exists. Raises OSError.

    The same links are followed; it must belong to root or to us, for a pipe gives what is written
    to whom it belongs. A file is no pipe, whatever it was a moment ago.
    """
    looked = _look(path)
    with closing(looked):
        found = os.fstat(looked)
        if not is_trusted(found.st_uid):
            raise PermissionError(errno.EACCES, "it belongs to another user", os.fspath(path))
        if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))
        opened = os.open(path_of(looked) or path, flags | os.O_CLOEXEC)
        if not os.path.samestat(os.fstat(opened), found):
            os.close(opened)
            raise ForeignLinkError(path)
        return opened


def is_trusted(uid: int) -> bool:
    """Tell whether what belongs to a user may lead us: it is root's, or our own."""
    return uid in (0, os.geteuid())


def is_ours_alone(folder: int) -> bool:
    """Tell whether nobody but root and us can change what lies in an open folder and is ours."""
    found = os.fstat(folder)
    # In a sticky one everybody can add, but none can take away what is another's.
    return is_closed(folder) or (is_trusted(found.st_uid) and bool(found.st_mode & stat.S_ISVTX))


def is_own_place(path: Path) -> bool:
    """Tell whether nobody but root and us can put anything into a folder, or swap it. OSError."""
    with closing(open_folder(path)) as folder:
        return is_closed(folder) and is_way_ours_alone(folder)


def is_closed(folder: int) -> bool:
    """Tell whether nobody but root and us can put anything into an open folder."""
    found = os.fstat(folder)
    return is_trusted(found.st_uid) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def is_way_ours_alone(folder: int) -> bool:
    """Tell whether nobody but root and us can put another folder in the place of an open one."""
    at = os.dup(folder)
    try:
        while is_ours_alone(at):
            above = os.open("..", _LOOK, dir_fd=at)
            if os.path.samestat(os.fstat(at), os.fstat(above)):
                os.close(above)
                return True
            at = _step(at, above)
        return False
    finally:
        os.close(at)


def _look(path: Path) -> int:
    """Return a descriptor (O_PATH) of what a path means, with no link of others on the way."""
    at = _top() if path.is_absolute() else os.open(".", _LOOK)
    ahead = deque(_parts(path))
    links = 0
    try:
        while ahead:
            found = _entry(ahead.popleft(), at)
            if isinstance(found, int):
                at = _step(at, found)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
            owner, target = found
            if not is_trusted(owner):
                raise ForeignLinkError(path)
            ahead.extendleft(reversed(_parts(target)))
            if target.is_absolute():
                at = _step(at, _top())
    except BaseException:
        os.close(at)
        raise
    return at


def _entry(name: str, folder: int) -> int | tuple[int, PurePath]:
    """Open what has a name in a folder; of a link return its owner and what it means."""
    try:
        entry = os.open(name, _LOOK, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        owner = os.lstat(name, dir_fd=folder).st_uid
        return owner, PurePath(os.readlink(name, dir_fd=folder))
    found = os.fstat(entry)
    if not stat.S_ISLNK(found.st_mode):
        return entry
    with closing(entry):
        return found.st_uid, PurePath(os.readlink("", dir_fd=entry))


def _parts(path: PurePath) -> list[str]:
    return [part for part in path.parts if part not in ("/", "//")]


def _top() -> int:
    return os.open("/", LOOK_ONLY)


def _step(before: int, after: int) -> int:
    os.close(before)
    return after


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Give a descriptor, and close it at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)
