"""Where an export goes: a new file that is there only when it is complete, or stdout."""

from __future__ import annotations

import gzip
import os
import sys
from typing import IO, TYPE_CHECKING, cast

from rlscope_trace.errors import TracerError, UsageError, reason_of, writing_hint
from rlscope_trace.outputs.place import PRIVATE_MODE, Place, open_place, refuse_read
from rlscope_trace.outputs.trusted import open_existing
from rlscope_trace.signals import signals_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_UNFINISHED = "timeline"

# Higher levels save a tenth of the bytes for three times the time.
_COMPRESSION = 1


def is_stdout(output: Path) -> bool:
    """Tell whether the output is the standard one."""
    return str(output) == "-"


def write_timeline(  # noqa: PLR0913 - what a file is to be
    output: Path,
    pieces: Iterable[bytes],
    *,
    force: bool,
    elsewhere: str = "-o FILE",
    read: Iterable[Path] = (),
    mode: int = PRIVATE_MODE,
) -> int | None:
    """Write the pieces to the output; returns how many bytes it has then, None: that is not known.

    elsewhere: what to give instead of an output that is no file. read: what they are made of, which
    is never replaced. A file has another name until it is complete, and is gzipped where its own
    ends in .gz; what was interrupted or failed leaves nothing. Raises UsageError where there is a
    file already and no `force`, or where stdout is a terminal; TracerError where the output cannot
    be written.
    """
    if is_stdout(output):
        return _write_stdout(pieces)
    refuse_read(output, read)
    try:
        if output.exists() and not output.is_file() and not output.is_dir():
            # A pipe or a device takes the bytes; no file may come in its place.
            with os.fdopen(open_existing(output, os.O_WRONLY), "wb") as file:
                _write(file, output, pieces)
            return None
        with open_place(output) as place:
            place.refuse_existing(overwrite=force, elsewhere=elsewhere)
            return _write_file(place, pieces, force=force, mode=mode)
    except OSError as error:
        raise TracerError(
            f"cannot write {output}: {reason_of(error)}",
            hint=writing_hint(error, "choose another place with -o"),
        ) from error


def _write_file(place: Place, pieces: Iterable[bytes], *, force: bool, mode: int) -> int:
    with signals_interrupt(), place.unfinished() as folder:
        with (folder.path / _UNFINISHED).open("xb") as file:
            _write(file, place.path, pieces)
        return place.publish(folder, _UNFINISHED, overwrite=force, mode=mode)


def _write(file: IO[bytes], output: Path, pieces: Iterable[bytes]) -> None:
    if output.suffix != ".gz":
        file.writelines(pieces)
        return
    # Without a name and a time in it, the same trace makes the same file.
    with gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as packed:
        packed.writelines(pieces)


def _write_stdout(pieces: Iterable[bytes]) -> int:
    """Write to stdout; a reader that leaves early ends it without a word."""
    if sys.stdout.isatty():
        raise UsageError("stdout is a terminal", hint="name a file with -o, or pipe the output")
    stdout, count = cast("IO[bytes]", sys.stdout.buffer), 0
    try:
        for piece in pieces:
            stdout.write(piece)
            count += len(piece)
        stdout.flush()
    except OSError as error:
        # Else the interpreter fails once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise TracerError(
                f"cannot write the output: {reason_of(error)}", hint="free space, or -o FILE"
            ) from error
    return count
