"""Files of a line each: read with a bound, whatever stands in them."""

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
            pass
        yield None
