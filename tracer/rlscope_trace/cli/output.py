"""Writes the results of commands: to stdout, or to a file that must not exist yet."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from rlscope_trace.errors import OutputExistsError, TracerError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def write_stdout(chunks: Iterable[str]) -> None:
    """Write to stdout; a reader that leaves early, like head, ends it without a word."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that this locale cannot show is no reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        for chunk in chunks:
            sys.stdout.write(chunk)
        sys.stdout.flush()
    except BrokenPipeError:
        # Else the interpreter fails once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise TracerError(f"cannot write the output: {error.strerror}") from error


def write_file(path: Path, text: str, *, force: bool) -> None:
    """Write a new file; with `force` also in the place of one that exists."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise OutputExistsError(
            f"{path} exists already", hint="choose another name, or add --force"
        ) from error
    except OSError as error:
        raise TracerError(f"cannot write {path}: {error.strerror}") from error
