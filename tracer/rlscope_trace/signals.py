"""What a command does at signals while something is under way."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import FrameType

    SignalHandler = Callable[[int, FrameType | None], object]

_INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_handled(handlers: Mapping[signal.Signals, SignalHandler]) -> Iterator[None]:
    """Handle these signals so for a while.

    One that is ignored stays so: a program under nohup outlives its terminal.
    """
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def signals_interrupt() -> AbstractContextManager[None]:
    """Let TERM and HUP do what Ctrl-C does: what is under way ends in order."""
    return signals_handled(dict.fromkeys(_INTERRUPTING, signal.default_int_handler))


@contextmanager
def signals_wait() -> Iterator[None]:
    """Let such signals wait for the end of the block: an import of native code would abort."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def interrupt_if_held() -> None:
    """Raise KeyboardInterrupt where such a signal is held for the program, which still gets it."""
    pending = signal.sigpending()
    if any(n in pending and signal.getsignal(n) != signal.SIG_IGN for n in _INTERRUPTING):
        raise KeyboardInterrupt
