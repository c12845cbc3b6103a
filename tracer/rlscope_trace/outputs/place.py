"""The place of an output: its folder, opened once, and the name that it will have there.

    with open_place(Path("out/trace.duckdb")) as place, place.unfinished() as folder:
        ...  # write folder.path / "trace"
        place.publish(folder, "trace", overwrite=False, mode=0o600)

What is written has no name of its own until it is complete; on any failure nothing is left.
"""

from __future__ import annotations

import atexit
import errno
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.errors import OutputExistsError, TracerError
from rlscope_trace.outputs.private import (
    NotOursError,
    PrivateFolder,
    make_private,
    make_private_elsewhere,
    open_private,
)
from rlscope_trace.outputs.trusted import closing, is_way_ours_alone, open_folder, path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PRIVATE_MODE = 0o600

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# What file systems say that have one name for a file, or none for a while.
_NO_LINKS = frozenset(
    {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.EPERM, errno.EMLINK, errno.ENOSYS}
)
_elsewhere: dict[Path, PrivateFolder] = {}
"""By output: private folders that are not beside it."""


def is_one_of(output: Path, read: Iterable[Path]) -> bool:
    """Tell whether the output is one of the files that are read, by whatever name."""

    def is_same(path: Path) -> bool:
        try:
            return output.samefile(path)
        except OSError:
            return False

    return any(map(is_same, read))


def refuse_read(output: Path, read: Iterable[Path]) -> None:
    """Raise OutputExistsError where the output is one of the files that are read."""
    if is_one_of(output, read):
        raise OutputExistsError(f"{output} is what is read", hint="name another file with -o")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an output goes."""

    path: Path
    """As the user named it; absolute."""
    folder: int
    """A descriptor of the folder that holds it."""

    def status(self) -> os.stat_result | None:
        """Return what has the name of the output now, links not followed; None: nothing has."""
        try:
            return os.lstat(self.path.name, dir_fd=self.folder)
        except FileNotFoundError:
            return None

    def refuse_existing(self, *, overwrite: bool, elsewhere: str = "-o FILE.duckdb") -> None:
        """Raise OutputExistsError if the output is there and may not be replaced.

        elsewhere: what to give instead of what is no file.
        """
        found = self.status()
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise OutputExistsError(f"{self.path} is a directory", hint=elsewhere)
        if found is not None and not self._is_file(found):
            # Others work with it, as with /dev/null, whoever has the right to replace it.
            raise OutputExistsError(f"{self.path} is no file", hint=elsewhere)
        if found is not None and not overwrite:
            raise OutputExistsError(f"{self.path} exists already", hint="overwrite it with --force")

    def _is_file(self, found: os.stat_result) -> bool:
        """Tell whether it can be replaced: a file, or a link but one such as /dev/stdout."""
        if not stat.S_ISLNK(found.st_mode):
            return stat.S_ISREG(found.st_mode)
        places = (os.readlink(self.path.name, dir_fd=self.folder), str(self.path.parent.resolve()))
        return not any(place.startswith("/proc/") for place in places)

    @contextmanager
    def unfinished(self) -> Iterator[PrivateFolder]:
        """Give a private folder for what is being written; with the block it goes.

        DuckDB opens what it writes by names. So the folder lies beside the output only where no
        other user could put another in its place. Raises OutputExistsError where another run writes
        the same output, OSError.
        """
        elsewhere = self.elsewhere()
        folder = elsewhere or self._own_folder()
        try:
            yield folder
        finally:
            # The output is complete, or why it is not is on its way: no reason to fail now.
            if elsewhere is None:
                with suppress(OSError):
                    folder.clear()
                    os.rmdir(folder.shown.name, dir_fd=self.folder)
                folder.close()
            else:
                _remove_elsewhere(self.path)

    def elsewhere(self) -> PrivateFolder | None:
        """Return the private folder that is not beside the output; None: it will be.

        Raises OSError, and TracerError where such a folder would not help.
        """
        if self.path not in _elsewhere and not is_way_ours_alone(self.folder):
            if path_of(self.folder) is None:
                raise TracerError(
                    f"other users can change {self.path.parent}, and without /proc"
                    " nothing can be written past them",
                    hint="-o names a file in a folder of your own",
                )
            _elsewhere[self.path] = make_private_elsewhere()
            # Also where nothing comes to be written.
            atexit.register(_remove_elsewhere, self.path)
        return _elsewhere.get(self.path)

    def _own_folder(self) -> PrivateFolder:
        shown = self.path.with_name(f"{self.path.name}.partial")
        try:
            return make_private(self.folder, shown)
        except FileExistsError:
            return self._left_behind(shown) or make_private(
                self.folder, shown.with_name(f"{shown.name}-{secrets.token_hex(8)}")
            )

    def _left_behind(self, shown: Path) -> PrivateFolder | None:
        """Take over what a killed run left; None: what has the name is not ours, and stays."""
        try:
            folder = open_private(self.folder, shown)
        except (OSError, NotOursError):
            return None
        folder.clear()
        return folder

    def publish(
        self, folder: PrivateFolder, name: str, *, overwrite: bool, mode: int | None
    ) -> int:
        """Give a complete file its name, on the disk for good; return its size in bytes.

        mode: its permissions; None: those that it has.
        Raises OutputExistsError where the name is taken and may not be, OSError.
        """
        with closing(os.open(name, _READ, dir_fd=folder.descriptor)) as file:
            if mode is not None:
                _set_mode(file, mode)
            size = os.fstat(file).st_size
            if self.path in _elsewhere:
                with self._copied(file) as copy:
                    self._name(copy, overwrite=overwrite)
            else:
                os.fsync(file)
                try:
                    self._name(file, overwrite=overwrite)
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                    # Nobody but us can have put another file there.
                    self._move(folder, name, overwrite=overwrite)
        # A folder that may not be read cannot be synced.
        with suppress(OSError):
            os.fsync(self.folder)
        return size

    @contextmanager
    def _copied(self, file: int) -> Iterator[int]:
        """Give a copy of a complete file, on the disk for good, beside the output."""
        status = os.fstat(file)
        with closing(self._new_file(stat.S_IMODE(status.st_mode))) as copy:
            at = 0
            while sent := os.sendfile(copy, file, at, status.st_size - at):
                at += sent
            _set_mode(copy, stat.S_IMODE(status.st_mode))
            os.fsync(copy)
            yield copy

    def _new_file(self, mode: int) -> int:
        """Return a descriptor of a new file in the folder of the output, without a name."""
        flags = os.O_RDWR | os.O_CLOEXEC
        try:
            return os.open(".", os.O_TMPFILE | flags, mode, dir_fd=self.folder)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        name = f"{self.path.name}.partial-{secrets.token_hex(8)}"
        flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        file = os.open(name, flags, mode, dir_fd=self.folder)
        atexit.register(_unlink, os.dup(self.folder), name)
        return file

    def _move(self, folder: PrivateFolder, name: str, *, overwrite: bool) -> None:
        """Move a file where file systems have one name for each."""
        self.refuse_existing(overwrite=overwrite)
        os.replace(name, self.path.name, src_dir_fd=folder.descriptor, dst_dir_fd=self.folder)

    def _name(self, file: int, *, overwrite: bool) -> None:
        """Give an open file the name of the output: that very file, whatever its names mean now."""
        name = self.path.name
        if overwrite:
            # Whatever has the name of the output is replaced; a link itself, not what it means.
            name = f"{name}.partial-{secrets.token_hex(8)}"
        source = path_of(file)
        if source is None:
            # As a file system without links says it: then the file is moved.
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        try:
            os.link(source, name, dst_dir_fd=self.folder, follow_symlinks=True)
        except FileExistsError:
            self.refuse_existing(overwrite=False)
            raise
        if not overwrite:
            return
        try:
            os.replace(name, self.path.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=self.folder)
            raise


def _set_mode(file: int, mode: int) -> None:
    """Give a file these permissions, unless it was made with them: a saver may change none."""
    if stat.S_IMODE(os.fstat(file).st_mode) != mode:
        # What was asked for when it was made did not help either: a file system without modes.
        with suppress(PermissionError):
            os.fchmod(file, mode)


def _unlink(folder: int, name: str) -> None:
    with closing(folder), suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _remove_elsewhere(output: Path) -> None:
    folder = _elsewhere.pop(output, None)
    if folder is None:
        return
    with suppress(OSError):
        folder.clear()
        folder.shown.rmdir()
    folder.close()


@contextmanager
def open_place(path: Path) -> Iterator[Place]:
    """Open the folder of an output, which must exist. Raises OSError where that fails."""
    absolute = path.absolute()
    with closing(open_folder(absolute.parent)) as folder:
        yield Place(absolute, folder)


def write_output(path: Path, content: bytes, *, overwrite: bool) -> None:
    """Write a file, whole or not at all. Raises OutputExistsError, OSError."""
    with open_place(path) as place:
        place.refuse_existing(overwrite=overwrite)
        with place.unfinished() as folder:
            (folder.path / "content").write_bytes(content)
            place.publish(folder, "content", overwrite=overwrite, mode=PRIVATE_MODE)
