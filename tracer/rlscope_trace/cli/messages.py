"""The words to the user on stderr: error, hint, warning, note; one shape for all commands.

Names of processes and what stands in traces come from others: all goes out through `say`, where
nothing is left in it that a terminal would obey.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from typing import TYPE_CHECKING

from rlscope_analysis.wording import harmless

if TYPE_CHECKING:
    from types import TracebackType


def say(text: str) -> None:
    """Write a line to stderr; nobody listening is no reason to fail."""
    try:
        sys.stderr.write(f"{harmless(text)}\n")
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
    say(warnings.formatwarning(message, category, filename, lineno, line).rstrip("\n"))


def _show_failure(
    kind: type[BaseException], error: BaseException, trail: TracebackType | None
) -> None:
    say("".join(traceback.format_exception(kind, error, trail)).rstrip("\n"))


def error(message: str, hint: str | None = None) -> None:
    """Say what went wrong and what to do; a line each where there are several."""
    _say_lines("error", message)
    if hint:
        _say_lines("hint", hint)


def warning(message: str, hint: str | None = None) -> None:
    """Say what is not as it should be."""
    _say_lines("warning", message)
    if hint:
        _say_lines("hint", hint)


def note(message: str) -> None:
    """Say what may be good to know."""
    _say_lines("note", message)


def _say_lines(level: str, text: str) -> None:
    for line in text.split("\n"):
        say(f"{level}: {line}")
