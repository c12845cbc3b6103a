"""Files of a line each: read with a bound, whatever stands in them."""

import errno
import os
from collections.abc import Iterator
from typing import BinaryIO

# No line that a recorder writes is so long.
_MOST_BYTES = 1 << 20


def lines_of(file: BinaryIO) -> Iterator[bytes | None]:
    """Yield every line of a file; None for one that is too long to be read."""
    while line := file.readline(_MOST_BYTES):
        if len(line) < _MOST_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while (rest := file.readline(_MOST_BYTES)) and not rest.endswith(b"\n"):
            _skip_hole(file)
        yield None


def _skip_hole(file: BinaryIO) -> None:
    """Go on where something was written: a file may be said to be of any size."""
    descriptor, at = file.fileno(), file.tell()
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        written = os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        # Nothing more; or a file system that does not know what was written.
        written = os.fstat(descriptor).st_size if error.errno == errno.ENXIO else at
    # The file keeps count of where its descriptor stands.
    os.lseek(descriptor, before, os.SEEK_SET)
    file.seek(written)
