"""What the programs with a planted cause share: work for a CPU, and a timer of what was planted.

Work is Python code, as most of a training program is: no system call and no clock inside.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROUNDS = 1000


def work(cpu_ms: float) -> int:
    """Use a CPU for so long, in Python code."""
    end_ns = time.thread_time_ns() + int(cpu_ms * 1e6)
    total = 0
    while time.thread_time_ns() < end_ns:
        for number in range(_ROUNDS):
            total += number * number % 7
    return total


class Truth:
    """What a training took, and the part that was planted, by the program's own clock."""

    def __init__(self) -> None:
        self.planted_ns = 0
        self.start_ns = time.monotonic_ns()

    @contextmanager
    def planted(self) -> Iterator[None]:
        start_ns = time.monotonic_ns()
        yield
        self.planted_ns += time.monotonic_ns() - start_ns

    def tell(self) -> None:
        """Print it as the last line."""
        total_ns = time.monotonic_ns() - self.start_ns
        reported = {"planted_ns": self.planted_ns, "total_ns": total_ns}
        sys.stdout.write(json.dumps(reported) + "\n")
