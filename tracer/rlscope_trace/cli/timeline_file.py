"""Where an export goes: a new file that is there only when it is complete, or stdout."""

from __future__ import annotations

import gzip
import os
import sys
from typing import IO, TYPE_CHECKING, cast

from rlscope_trace.errors import TracerError, UsageError
from rlscope_trace.privileges import chown_to_invoker, invoking_identity
from rlscope_trace.store.database_file import partial_of, publish, reason_of, refuse_existing
from rlscope_trace.watch import signals_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# Higher levels save a tenth of the bytes for three times the time.
_COMPRESSION = 1


def is_stdout(output: Path) -> bool:
    """Tell whether the output is the standard one."""
    return str(output) == "-"


def write_timeline(output: Path, pieces: Iterable[bytes], *, force: bool) -> int | None:
    """Write the pieces to the output; returns how many bytes it has then, None: that is not known.

    A file has another name until it is complete, and is gzipped where its own ends in .gz; what was
    interrupted or failed leaves nothing. Raises UsageError where there is a file already and no
    `force`, or where stdout is a terminal; TracerError where the output cannot be written.
    """
    if is_stdout(output):
        return _write_stdout(pieces)
    try:
        if output.exists() and not output.is_file() and not output.is_dir():
            # A pipe or a device takes the bytes; no file may come in its place.
            with output.open("wb") as file:
                _write(file, output, pieces)
            return None
        refuse_existing(output, overwrite=force)
        return _write_file(output, pieces, force=force)
    except OSError as error:
        raise TracerError(
            f"cannot write {output}: {reason_of(error)}", hint="choose another place with -o"
        ) from error


def _write_file(output: Path, pieces: Iterable[bytes], *, force: bool) -> int:
    partial = partial_of(output)
    try:
        with signals_interrupt():
            with partial.open("wb") as file:
                _write(file, output, pieces)
            file_bytes = publish(output, overwrite=force)
    finally:
        partial.unlink(missing_ok=True)
    chown_to_invoker(output, invoking_identity())
    return file_bytes


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
            raise TracerError(f"cannot write the output: {reason_of(error)}") from error
    return count
