"""Files of lines are read by what was written into them, not by the size that they say."""

import os
from pathlib import Path

from rlscope_trace.spool.line_files import lines_of

LONG = b"x" * (3 << 20)


def lines(path: Path) -> list[bytes | None]:
    with path.open("rb") as file:
        return list(lines_of(file))


def test_a_line_that_is_too_long_is_none(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"first\n" + LONG + b"\nlast\n" + LONG)
    assert lines(path) == [b"first\n", None, b"last\n", None]


def test_a_hole_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"first\n")
    # So large that reading it would take a day.
    os.truncate(path, 1 << 42)
    with path.open("r+b") as file:
        file.seek((1 << 41) + 5)
        file.write(b"\nmiddle\n")
    assert lines(path) == [b"first\n", None, b"middle\n", None]
