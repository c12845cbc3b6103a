"""Where views go: to a screen, or to stdout as lines or JSON objects."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TYPE_CHECKING, Protocol

from rlscope_analysis.wording import harmless
from rlscope_trace.cli.top_words import line

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rlscope_trace.record.live.view import View

_ESCAPE = "\x1b"
_PAGES = "twf?"
# What stands for it where a locale has no such characters.
_PLAIN = str.maketrans("▁▂▃▄▅▆▇█·…", "___----#..")


class StopWatchingError(Exception):
    """Whoever watches has seen enough."""


class Shown(Protocol):
    """What takes views."""

    def show(self, view: View) -> None:
        """Show the next view."""

    def keys(self) -> str:
        """Return the keys that were pressed and are not for the screen itself; q ends it."""

    def kept(self) -> None:
        """Show that a trace will be saved."""


class ShownLines:
    """A line a second on stdout."""

    def __init__(self, *, as_json: bool) -> None:
        _write_in_any_locale()
        self._words: Callable[[View], str] = line
        if as_json:
            # Here: it takes time to import, and lines of words do without it.
            from rlscope_analysis.renderers import json

            self._words = json.render_line

    def show(self, view: View) -> None:
        """Write it; where nobody reads any more, that is the end."""
        try:
            sys.stdout.write(harmless(self._words(view)) + "\n")
            sys.stdout.flush()
        except OSError:
            # Else the interpreter fails once more when it flushes stdout at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise StopWatchingError from None

    def keys(self) -> str:
        """Return none."""
        return ""

    def kept(self) -> None:
        """Keep still: what was saved is said at the end."""


class ShownScreen:
    """A screen of its own on the terminal, which is as it was afterwards."""

    def __init__(self, program: str) -> None:
        # Here: rich takes time to import, and lines do without it.
        from rich.console import Console
        from rich.live import Live

        from rlscope_trace.cli.top_screen import Screen

        _write_in_any_locale()
        self._screen = Screen(program, len(os.sched_getaffinity(0)))
        self._live = Live(
            self._screen, console=Console(), screen=True, auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False, vertical_overflow="crop",
        )  # fmt: skip

    def __enter__(self) -> ShownScreen:
        self._live.__enter__()
        self._live.refresh()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trail: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trail)

    def show(self, view: View) -> None:
        """Draw it."""
        self._screen.show(view)
        self._live.refresh()

    def keys(self) -> str:
        """Do what the keys say that are for the screen; return the others."""
        from rlscope_trace.cli.top_terminal import pressed

        keys = pressed()
        if "q" in keys:
            raise StopWatchingError
        for key in keys:
            if key in _PAGES:
                self._screen.page = "" if self._screen.page == key else key
            elif key == _ESCAPE:
                self._screen.page = ""
            elif key == "p":
                self._screen.is_paused = not self._screen.is_paused
        if keys:
            self._screen.message = ""
            self._live.refresh()
        return keys

    def kept(self) -> None:
        """Say so in the place of the keys, until the next of them."""
        from rlscope_trace.cli.top_screen import KEPT

        self._screen.is_kept, self._screen.message = True, KEPT
        self._live.refresh()


def _write_in_any_locale() -> None:
    """Let stdout have something for each character that it cannot write."""
    codecs.register_error("rlscope_plain", _plain)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="rlscope_plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    words = error.object[error.start : error.end].translate(_PLAIN)
    return words.encode("ascii", "replace").decode(), error.end
