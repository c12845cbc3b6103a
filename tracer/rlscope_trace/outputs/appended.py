"""Adds a line to a file that is kept from run to run."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from rlscope_trace.errors import TracerError, reason_of
from rlscope_trace.outputs.place import PRIVATE_MODE
from rlscope_trace.outputs.trusted import closing, open_folder

if TYPE_CHECKING:
    from pathlib import Path

# Neither a pipe that nobody reads is waited for, nor a link followed: the folder may be another's.
_FLAGS = (
    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    | os.O_CLOEXEC
)  # fmt: skip


def append_line(path: Path, line: str) -> None:
    """Add a line to a file, which is made where there is none. Raises TracerError."""
    try:
        _append(path.absolute(), f"{line}\n".encode("utf-8", "backslashreplace"))
    except (OSError, ValueError) as error:
        raise TracerError(
            f"cannot add to {path}: {reason_of(error)}",
            hint="name a file of yours, or a new one in a folder that you may write to",
        ) from error


def _append(path: Path, line: bytes) -> None:
    with (
        closing(open_folder(path.parent)) as folder,
        closing(os.open(path.name, _FLAGS, PRIVATE_MODE, dir_fd=folder)) as file,
    ):
        found = os.fstat(file)
        # One with more names than this may be any file of the machine.
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise OSError(errno.EINVAL, "it is no file with one name")
        while line:
            line = line[os.write(file, line) :]
