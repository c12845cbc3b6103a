"""Calls that the target can hold up: its memory and its files may lie in a file system of its own.

Reading them waits in the OS kernel for as long as whoever serves that file system likes. So a
thread of its own does it, and is left behind where it does not come back. What a program of a user
serves is not asked for in the first place: native/inject/mapped_file.h.
"""

from __future__ import annotations

import errno
import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rlscope_trace import _capture

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
# Threads left behind, at most: what would be asked after that is refused.
_MOST = 8
_left_behind: list[object] = []
"""Threads, and what they work on: it stays for as long as this process."""


class HeldUpError(OSError):
    """Whoever serves the memory or the files of the target does not answer."""

    def __init__(self) -> None:
        super().__init__(errno.ETIMEDOUT, "its memory or its files do not answer")


def leave_behind(work: object) -> None:
    """Keep what a thread of ours works on that will not end."""
    _left_behind.append(work)


def has_left_behind() -> bool:
    """Tell whether there are threads of ours that will not end before this process does."""
    return bool(_left_behind)


def go_on() -> None:
    """Raise HeldUpError in a thread that was left behind and came back too late."""
    if threading.current_thread() in _left_behind:
        raise HeldUpError


def stand_behind(nice: int) -> None:
    """Let the calling thread run after others, unless it does: nobody may get ahead again."""
    own = threading.get_native_id()
    if os.getpriority(os.PRIO_PROCESS, own) < nice:
        os.setpriority(os.PRIO_PROCESS, own, nice)


def start_thread(thread: threading.Thread) -> None:
    """Start a thread; OSError where the user may have no more of them (ulimit -u)."""
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from None


class Bounded:
    """A thread for such calls, one at a time; a new one each time one was left behind."""

    def __init__(self, *, patience_s: float = 2.0, nice: int = 0) -> None:
        """patience_s: how long a call may do nothing but wait; nice: of the thread, at least."""
        self._patience_s = patience_s
        self._nice = nice
        self._worker: _Worker | None = None

    def call(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises; HeldUpError where it only waits."""
        if len(_left_behind) >= _MOST:
            raise HeldUpError
        if self._worker is None:
            worker = _Worker(self._nice)
            start_thread(worker)
            self._worker = worker
        job = _Job(work)
        self._worker.jobs.put(job)
        held_up = _capture.HeldUp()
        while not job.is_done.wait(self._patience_s / 2):
            if not self._worker.is_alive() or held_up.is_since(self._worker.native_id or 0):
                leave_behind(self._worker)
                self._worker = None
                raise HeldUpError
        return job.result()

    def close(self) -> None:
        """End the thread."""
        if self._worker is not None:
            self._worker.jobs.put(None)
            self._worker.join()
            self._worker = None


class _Job(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._returned: list[T] = []
        self._error: BaseException | None = None
        self.is_done = threading.Event()

    def run(self) -> None:
        try:
            self._returned.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            self._error = error
        finally:
            self.is_done.set()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._returned[0]


class _Worker(threading.Thread):
    def __init__(self, nice: int) -> None:
        super().__init__(name="rls-bounded", daemon=True)
        self._nice = nice
        self.jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()

    def run(self) -> None:
        stand_behind(self._nice)
        while (job := self.jobs.get()) is not None:
            job.run()
            if self in _left_behind:
                # It came back, too late for what it was asked.
                _left_behind.remove(self)
                return
