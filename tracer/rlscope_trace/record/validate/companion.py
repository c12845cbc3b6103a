"""What keeps a CPU as busy as two runs on it do, once one of them has ended.

Whichever ends last would have the CPU and its caches for itself from then on, and be faster than
the other was: most often the traced one, by what tracing adds. Programs that wait a lot leave each
other more of a CPU than this does.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from rlscope_trace.record.calibrate.children import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

# Seldom: whoever looks may do so on the CPU of the runs.
_LOOK_S = 0.02


class _Run(Protocol):
    def has_ended(self) -> bool: ...
    def niceness(self) -> int: ...


@contextmanager
def companion(cpu: int) -> Iterator[Child]:
    """Yield a process that waits to be of use; it is gone in the end."""
    child = Child(cpu)
    try:
        # It has started when it answers: that takes no time of the runs.
        child.ask("heard")
        yield child
    finally:
        child.close()


def step_in(child: Child, runs: Sequence[_Run]) -> None:
    """Wait until all runs have ended, and from the end of the first on keep their CPU busy."""
    _wait_for(any, runs)
    for run in runs:
        # One that gives way to others would hardly go on otherwise.
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, child.pid, run.niceness())
    child.send("crowd")
    _wait_for(all, runs)
    child.check()
    # Told by the end of its stdin: what is written may have been read together with the above.
    child.end()


def _wait_for(which: Callable[[Iterable[bool]], bool], runs: Sequence[_Run]) -> None:
    while not which(run.has_ended() for run in runs):
        time.sleep(_LOOK_S)
