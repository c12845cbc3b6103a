"""Opens what somebody else may have put into a spool: a file itself, or nothing."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

# Waits neither for the writer of a pipe nor for who holds a lease on the file.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError where there is none, or a link, a pipe, a device.

    What was opened is asked what it is: its name can stand for something else at any time.
    """
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        # A link; a socket, or a device without a driver.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _refused(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refused(path)
    return os.fdopen(descriptor, "rb")


def _refused(path: Path) -> OSError:
    return OSError(errno.EINVAL, f"{path.name} is no regular file", os.fspath(path))
