"""Files that somebody else may have made: never waited for, and read no further than is meant."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

_MOST_JSON_BYTES = 16 << 20
# Each takes 50 to 230 bytes, and two characters of the file are enough for one.
_MOST_JSON_GROUPS = 500_000


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError, also where it is a pipe, a device or a folder.

    A pipe that nobody writes to would be waited for, and so would many a device.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))


def read_json(path: Path) -> Any:  # noqa: ANN401 - of JSON
    """Return what a file of JSON holds. Raises OSError, ValueError, RecursionError."""
    with open_regular(path) as file:
        text = file.read(_MOST_JSON_BYTES + 1)
    if len(text) > _MOST_JSON_BYTES:
        raise ValueError(f"it has more than {_MOST_JSON_BYTES >> 20} MiB")
    if text.count(b"[") + text.count(b"{") > _MOST_JSON_GROUPS:
        raise ValueError(f"it has more than {_MOST_JSON_GROUPS:,} lists and objects")
    return json.loads(text)
