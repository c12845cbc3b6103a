"""The errors a user can meet: what happened, a hint that mends it, and the exit code."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# How a private folder is named, which says nothing to a user.
_PRIVATE_PATH = re.compile(r"/proc/self/fd/\d+/")


class TracerError(Exception):
    """Something failed while running: exit code 1.

    A message says what happened with the value that caused it; `hint` is what to do about it,
    a command wherever there is one. Several messages, and several hints, get a line each; a line
    feed within one is part of a value, such as the name of a file, and begins none.
    """

    exit_code = 1

    def __init__(self, *messages: str, hint: str | Sequence[str] | None = None) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages
        self.hints = (hint,) if isinstance(hint, str) else tuple(hint or ())

    @property
    def hint(self) -> str | None:
        """Return all hints; None where there is none."""
        return "\n".join(self.hints) or None

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self.hints = (hint,) if hint else ()


class UsageError(TracerError):
    """The command line asks for something that cannot be: exit code 2."""

    exit_code = 2


class TargetGoneError(TracerError):
    """The process to trace does not exist (any more)."""


class PermissionNeededError(TracerError):
    """The recorder lacks a privilege."""


class NoRecorderError(TracerError):
    """What records is no part of this installation."""


class OutputExistsError(UsageError):
    """The output is there already and `--force` was not given."""


class SpoolError(TracerError):
    """A spool cannot be read, or cannot be written any further."""


class VerificationError(TracerError):
    """The finished database does not hold what the spool held; the spool was kept."""


class CommandNotFoundError(UsageError):
    """The program to launch does not exist: exit code 127, as from a shell."""

    exit_code = 127


class CommandNotExecutableError(UsageError):
    """The program to launch exists but cannot be executed: exit code 126, as from a shell."""

    exit_code = 126


def writing_hint(error: OSError, elsewhere: str) -> str:
    """Return what helps where a file cannot be written: mostly another place."""
    return "ulimit -f unlimited" if error.errno == errno.EFBIG else elsewhere


def reason_of(error: BaseException) -> str:
    """Return in one line why something failed."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    words = str(error).partition("\n")[0] or type(error).__name__
    return _PRIVATE_PATH.sub("", words)


@dataclass(frozen=True, slots=True)
class Said:
    """What a command of ours said on stderr, by the words before the colon."""

    errors: list[str]
    hints: list[str]
    warnings: list[str]

    @classmethod
    def of(cls, words: str) -> Said:
        """Take apart what a process of ours wrote; what has no such word is left out."""
        lines = [line.partition(": ") for line in re.split(r"[\r\n]+", words)]
        errors, hints, warnings = (
            [text for kind, _, text in lines if kind == wanted]
            for wanted in ("error", "hint", "warning")
        )
        return cls(errors, hints, warnings)
