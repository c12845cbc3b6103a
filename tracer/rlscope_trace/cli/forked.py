"""Work in a fork of this process, which has one thread only: rights belong to threads."""

from __future__ import annotations

import atexit
import errno
import os
import pickle
import signal
from typing import TYPE_CHECKING, TypeVar

from rlscope_trace.errors import TracerError
from rlscope_trace.signals import signals_handled

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

T = TypeVar("T")
_FORWARDED = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
)  # fmt: skip


def in_a_fork(work: Callable[[], T]) -> T:
    """Return what `work` returns there, or raise what it raises; OSError where the fork dies.

    Signals to this process are passed on to it.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        # What this process has to tidy up is not for the fork to do.
        atexit._clear()
        # A Ctrl-C in the terminal comes once, by us.
        os.setpgid(0, 0)
        # Nor may the terminal stop what writes to it from the background.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        _answer(writer, work)
    os.close(writer)

    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    with signals_handled(dict.fromkeys(_FORWARDED, forward)), os.fdopen(reader, "rb") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    if not said:
        raise OSError(errno.ECHILD, "the process that saves was killed")
    # Of a process of ours, by a pipe that nobody else has.
    is_error, result = pickle.loads(said)
    if is_error:
        raise result
    return result  # type: ignore[no-any-return]


def _answer(writer: int, work: Callable[[], object]) -> None:
    """Write what comes of it, and end: nothing else of this process is for the fork to do."""
    try:
        said = (False, work())
    except BaseException as error:  # noqa: BLE001 - raised again by who waits for it
        said = (True, error)
    try:
        with os.fdopen(writer, "wb") as answer:
            answer.write(_pickled(said))
    finally:
        # Also where nobody waits any more. Its own folder for long sorts goes with it.
        atexit._run_exitfuncs()
        os._exit(0)


def _pickled(said: tuple[bool, object]) -> bytes:
    try:
        data = pickle.dumps(said)
        pickle.loads(data)
    except Exception:  # noqa: BLE001
        return pickle.dumps((True, TracerError(str(said[1]))))
    return data
