"""The words to the user on stderr: error, hint, warning, note; one shape for all commands.

Names of processes and files, and what stands in traces, come from others: all goes out through
`say`, where nothing is left in it that a terminal would obey, or that would begin a line.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import TYPE_CHECKING

from rlscope_analysis.wording import harmless_line

if TYPE_CHECKING:
    from types import TracebackType


def say(text: str) -> None:
    """Write a line to stderr; nobody listening is no reason to fail."""
    try:
        sys.stderr.write(f"{harmless_line(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def take_over() -> None:
    """Let also what Python itself says go through here: its warnings, and errors of ours."""
    warnings.showwarning = _show_warning
    sys.excepthook = _show_failure


def _show_warning(  # noqa: PLR0913 - as Python calls it
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: object = None, line: str | None = None,
) -> None:  # fmt: skip
    del file
    _say_each(warnings.formatwarning(message, category, filename, lineno, line))


def _show_failure(
    kind: type[BaseException], error: BaseException, trail: TracebackType | None
) -> None:
    _say_each("".join(traceback.format_exception(kind, error, trail)))


def _say_each(text: str) -> None:
    """Write what Python says: its lines are what they seem."""
    for line in text.rstrip("\n").split("\n"):
        say(line)


def failure(error: Exception, level: str = "error") -> None:
    """Say what a TracerError or TraceError says; a line each for several messages, or hints."""
    for message in getattr(error, "messages", (str(error),)):
        say(f"{level}: {message}")
    for hint in getattr(error, "hints", (getattr(error, "hint", None),)):
        if hint:
            say(f"hint: {hint}")


def error(message: str, hint: str | None = None) -> None:
    """Say what went wrong and what to do."""
    _say("error", message, hint)


def warning(message: str, hint: str | None = None) -> None:
    """Say what is not as it should be."""
    _say("warning", message, hint)


def note(message: str) -> None:
    """Say what may be good to know."""
    _say("note", message)


def _say(level: str, message: str, hint: str | None = None) -> None:
    say(f"{level}: {message}")
    if hint:
        say(f"hint: {hint}")
