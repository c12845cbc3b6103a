"""What signals do between the end of a recording and the saved trace."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rlscope_trace.cli import messages
from rlscope_trace.errors import SpoolError
from rlscope_trace.signals import signals_handled
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

_OF_PROGRAMS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


@contextmanager
def second_interrupt_stops(spool_directory: Path, *, is_leased: bool = False) -> Iterator[None]:
    """Let the first Ctrl-C only say that saving is under way; the next one, or a TERM, stops it.

    is_leased: a TERM is what ended the recording, and may come twice: it changes nothing.

    Signals that were meant for the program, as those of batch jobs, change nothing any more. Raises
    SpoolError where it was stopped.
    """

    def on_interrupt(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        messages.say(f"saving; Ctrl-C again stops it and leaves the spool {spool_directory}")

    handlers = {
        signal.SIGINT: on_interrupt,
        signal.SIGTERM: signal.default_int_handler,
        signal.SIGHUP: signal.default_int_handler,
        signal.SIGQUIT: signal.default_int_handler,
        **dict.fromkeys(_OF_PROGRAMS, lambda _number, _frame: None),
    }
    if is_leased:
        handlers[signal.SIGTERM] = handlers[signal.SIGUSR1]
    try:
        with signals_handled(handlers):
            yield
    except KeyboardInterrupt as error:
        raise SpoolError(
            "interrupted before the trace was complete",
            hint=f"rlscope-trace recover {shell_line([str(spool_directory)])}",
        ) from error
