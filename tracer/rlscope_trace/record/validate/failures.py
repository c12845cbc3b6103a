"""Why a run gave no result: the words of the program, or those of the recorder."""

from __future__ import annotations

import errno
import os
import shlex
import textwrap
from typing import TYPE_CHECKING

from rlscope_trace.errors import (
    CommandNotExecutableError,
    CommandNotFoundError,
    Said,
    TracerError,
    UsageError,
)
from rlscope_trace.privileges import acting_as, invoking_identity, open_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TAIL_LINES = 12
_TAIL_LENGTH = 300
_LINE_LENGTH = 120
_USAGE_EXIT = 2


class ProgramFailedError(TracerError):
    """The program ended with another exit code than 0: nothing can be compared."""


def program_failed(
    status: int, what: str, words: Path, command: Sequence[str]
) -> ProgramFailedError:
    """Return what is said of a run that ended badly.

    status: of wait(2). what: "an untraced run". words: the file that the program wrote stderr to.
    """
    code = os.waitstatus_to_exitcode(status)
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    tail = (f"  {line}" for line in _last_lines(words))
    return ProgramFailedError(
        f"the program {how} in {what}",
        *tail,
        hint=f"it must end by itself with 0: {one_line(command)}",
    )


def recorder_failed(words: str, code: int) -> TracerError:
    """Return the recorder's own error as ours."""
    said = Said.of(words)
    kind = UsageError if code == _USAGE_EXIT else TracerError
    messages = said.errors or [
        f"the run gave no result: {words.strip()[-400:] or 'no word of why'}"
    ]
    return kind(*messages, hint=said.hints or "rlscope-trace doctor")


def not_started(name: str, number: int) -> UsageError:
    """Return what is said of a command that cannot be executed; number: the errno."""
    if number == errno.ENOENT:
        return CommandNotFoundError(f"{name}: command not found")
    return CommandNotExecutableError(f"{name} cannot be executed: {os.strerror(number).lower()}")


def one_line(command: Sequence[str]) -> str:
    """Return a command as it is typed, shortened where it is long."""
    return textwrap.shorten(shlex.join(command), _LINE_LENGTH, placeholder=" ...")


def _last_lines(path: Path) -> list[str]:
    """Return the end of what a program wrote, which may be very much."""
    try:
        with acting_as(invoking_identity()), open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_LINES * _TAIL_LENGTH))
            words = file.read(_TAIL_LINES * _TAIL_LENGTH).decode(errors="replace")
    except OSError:
        return []
    return [line[-_TAIL_LENGTH:] for line in words.splitlines()[-_TAIL_LINES:]]
