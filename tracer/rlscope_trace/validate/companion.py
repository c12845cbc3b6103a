"""What keeps a CPU as busy as two runs on it do, once one of them has ended.

Whichever ends last would have the CPU and its caches for itself from then on, and be faster than
the other was: most often the traced one, by what tracing adds.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rlscope_trace.calibrate.children import Child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_LOOK_S = 0.005


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


def step_in(child: Child, have_ended: Sequence[Callable[[], bool]]) -> None:
    """Wait until one of the runs has ended, and keep its CPU busy if another has not."""
    while not any(has_ended() for has_ended in have_ended):
        time.sleep(_LOOK_S)
    if not all(has_ended() for has_ended in have_ended):
        child.send("crowd")
