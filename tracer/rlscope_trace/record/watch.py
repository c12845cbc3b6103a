"""Waits for the end of a recording: signals, the targets, the program, the clock."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rlscope_trace import _capture
from rlscope_trace.record import target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rlscope_trace.record.launch import Launched
    from rlscope_trace.record.lease import Lease
    from rlscope_trace.record.target import Target

# How often the end of a target is looked for, and the progress line may be drawn.
TICK_S = 0.5
# siginfo.si_code of a signal that the terminal sent: to the whole foreground group, so the
# program has it already (asm-generic/siginfo.h).
_SI_KERNEL = 0x80

# All that would end the recorder, whether meant for it or for the program: schedulers of batch jobs
# announce the end with SIGUSR1 or SIGUSR2.
_ENDING_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)
_HELD_SIGNALS = (*_ENDING_SIGNALS, signal.SIGCHLD)


@contextmanager
def signals_held() -> Iterator[None]:
    """Keep signals pending for the functions below, instead of ending the recorder."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_SIGNALS)
    try:
        yield
    finally:
        # What came too late to matter must not interrupt what follows.
        while _capture.wait_signal(_HELD_SIGNALS, 0)[0]:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def watch_targets(
    targets: Sequence[Target],
    *,
    deadline_s: float | None,
    tick: Callable[[], None],
    tick_s: float = TICK_S,
    lease: Lease | None = None,
) -> str:
    """Wait until a signal, the deadline (time.monotonic), or the end of the last target.

    lease: where that is over, so is the wait. Returns why it ended. Call it with signals_held.
    """
    # One that is ignored (nohup) stays pending while it is blocked, and must not count.
    ending = [number for number in _ENDING_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    while True:
        if _capture.wait_signal(ending, _wait_s(deadline_s, tick_s))[0]:
            return "stopped"
        if not target.alive(targets):
            return "the target has ended" if len(targets) == 1 else "all targets have ended"
        if _is_over(deadline_s):
            return "the duration is over"
        if lease is not None and lease.is_over():
            return "nobody renewed its lease"
        tick()


def watch_program(
    launched: Launched,
    *,
    deadline_s: float | None,
    tick: Callable[[], None],
    tick_s: float = TICK_S,
) -> str:
    """Wait until the program or the time ends; signals sent to the recorder go to the program.

    Returns why it ended. Call it with signals_held.
    """
    while True:
        number, code = _capture.wait_signal(_HELD_SIGNALS, _wait_s(deadline_s, tick_s))
        if number in _ENDING_SIGNALS and not _has_it_already(number, code):
            launched.forward_signal(number)
        if launched.poll() is not None:
            return "the program has ended"
        if _is_over(deadline_s):
            return "the duration is over"
        tick()


def _has_it_already(number: int, code: int) -> bool:
    """Whether the program got this signal too: the terminal sends to the whole foreground group.

    Except for a hangup, which goes to the leader of the session alone, if that is the recorder.
    """
    leads = number == signal.SIGHUP and os.getsid(0) == os.getpid()
    return code == _SI_KERNEL and not leads


def _wait_s(deadline_s: float | None, tick_s: float) -> float:
    if deadline_s is None:
        return tick_s
    return min(tick_s, max(deadline_s - time.monotonic(), 0))


def _is_over(deadline_s: float | None) -> bool:
    return deadline_s is not None and time.monotonic() >= deadline_s
