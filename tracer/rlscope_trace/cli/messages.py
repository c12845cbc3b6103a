"""The words to the user on stderr: error, hint, warning, note; one shape for all commands."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Write a line to stderr; nobody listening is no reason to fail."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        pass


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
    for line in text.splitlines():
        say(f"{level}: {line}")
