"""The terminal of `top`: keys at once, and everything as it was when it ends, however it ends."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rlscope_trace.privileges import invoking_identity
from rlscope_trace.rights import become_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

_DONE = b"."
# The main screen, a visible cursor, plain letters, and the start of a line.
_RESTORE = b"\x1b[?1049l\x1b[?25h\x1b[0m\r"
_LOCAL = 3
_CONTROL = 6


@contextmanager
def terminal_kept() -> Iterator[None]:
    """Restore the terminal at the end, also where this process is killed or crashes.

    A child does that: it holds the other end of a pipe, and sees it close. Call it while this
    process has one thread.
    """
    before = termios.tcgetattr(sys.stdin)
    reader, writer = os.pipe()
    guard = os.fork()
    if guard == 0:
        with suppress(BaseException):
            os.close(writer)
            _guard(reader, before)
        os._exit(0)
    os.close(reader)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        with suppress(OSError):
            os.write(writer, _DONE)
        os.close(writer)
        os.waitpid(guard, 0)


def _guard(reader: int, before: list[object]) -> None:
    """Wait for the end of the parent; put the terminal back where it could not."""
    # What ends the others comes to the whole group, and must not end this.
    os.setpgid(0, 0)
    for number in (signal.SIGTTOU, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    become_reader(invoking_identity())
    if os.read(reader, 1) == _DONE:
        return
    os.write(1, _RESTORE)
    termios.tcsetattr(0, termios.TCSADRAIN, before)  # type: ignore[arg-type]


@contextmanager
def keys_at_once() -> Iterator[None]:
    """Let keys come when they are pressed, and show none of them; signals stay as they are."""
    settings = termios.tcgetattr(sys.stdin)
    settings[_LOCAL] &= ~(termios.ICANON | termios.ECHO)
    settings[_CONTROL][termios.VMIN] = 0
    settings[_CONTROL][termios.VTIME] = 0
    before = termios.tcgetattr(sys.stdin)
    termios.tcsetattr(sys.stdin, termios.TCSANOW, settings)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def pressed() -> str:
    """Return the keys that were pressed since the last time; never waits."""
    try:
        ready, _, _ = select.select([sys.stdin.fileno()], [], [], 0)
        return os.read(sys.stdin.fileno(), 64).decode("ascii", "ignore") if ready else ""
    except OSError:
        # The terminal has gone: a hangup comes.
        return ""


@contextmanager
def streams_of_program(*, has_screen: bool) -> Iterator[None]:
    """Keep a program that is launched meanwhile from writing where `top` does.

    Where there is a screen it has /dev/null in the place of the terminal; else its stdout is our
    stderr.
    """
    kept = {number: os.dup(number) for number in range(3)}
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        for number in kept:
            if has_screen and os.isatty(number):
                os.dup2(nothing, number)
        if not has_screen:
            os.dup2(2, 1)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(nothing)
