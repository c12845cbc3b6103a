"""Writes the results of commands: to stdout, or to a file that must not exist yet."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TYPE_CHECKING

from rlscope_analysis.renderers.grid import BOLD, PLAIN
from rlscope_analysis.wording import harmless
from rlscope_trace.errors import TracerError, writing_hint
from rlscope_trace.outputs.place import open_place, refuse_read, write_output

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


_ELSEWHERE = "choose another place"
# The only commands to a terminal in what we write: bold rows of tables.
_OUR_OWN = re.compile(f"({re.escape(BOLD)}|{re.escape(PLAIN)})")


def write_stdout(chunks: Iterable[str], *, is_data: bool = False) -> None:
    """Write to stdout; a reader that leaves early, like head, ends it without a word.

    What a terminal would obey is escaped. is_data: only where stdout is one; a program or a file
    gets every value as it is.
    """
    shown = sys.stdout.isatty()
    as_is = is_data and not shown
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that this locale cannot show is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        for chunk in chunks:
            sys.stdout.write(chunk if as_is else _escaped(chunk, for_terminal=shown))
        sys.stdout.flush()
    except BrokenPipeError:
        # Else the interpreter fails once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise TracerError(
            f"cannot write the output: {error.strerror}", hint="free space, or send it elsewhere"
        ) from error


def _escaped(text: str, *, for_terminal: bool) -> str:
    if not for_terminal or BOLD not in text:
        return harmless(text)
    parts = _OUR_OWN.split(text)
    return "".join(part if part in (BOLD, PLAIN) else harmless(part) for part in parts)


def refuse_existing(path: Path, *, force: bool, elsewhere: str) -> None:
    """Raise TracerError where write_file would, before there is something to write.

    elsewhere: what to give instead of an output that is no file.
    """
    try:
        with open_place(path) as place:
            place.refuse_existing(overwrite=force, elsewhere=elsewhere)
    except OSError as error:
        raise TracerError(
            f"cannot write {path}: {error.strerror}", hint=writing_hint(error, _ELSEWHERE)
        ) from error


def write_file(
    path: Path, text: str, *, force: bool, elsewhere: str = "-o FILE", read: Iterable[Path] = ()
) -> None:
    """Write a new file; with `force` also in the place of one that exists.

    elsewhere: what to give instead of an output that is no file. read: what it is made of, which
    is never replaced.
    """
    refuse_read(path, read)
    refuse_existing(path, force=force, elsewhere=elsewhere)
    try:
        write_output(path, text.encode(errors="backslashreplace"), overwrite=force)
    except OSError as error:
        raise TracerError(
            f"cannot write {path}: {error.strerror}", hint=writing_hint(error, _ELSEWHERE)
        ) from error
