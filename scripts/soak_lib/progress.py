"""Lines that tell how far a soak is: one every ten seconds at most, and one at the end."""

from __future__ import annotations

import sys
import time
from collections import Counter

_EVERY_S = 10


class Progress:
    """Counts by what happened, and says them now and then."""

    def __init__(self, what: str, total: int) -> None:
        self.counts: Counter[str] = Counter()
        self.done = 0
        self._what = what
        self.total = total
        self._started_s = time.monotonic()
        self._next_s = self._started_s + _EVERY_S

    def step(self, more: str = "") -> None:
        """Note that one more is done; `more` is said behind the counts."""
        self.done += 1
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _EVERY_S
            say(f"{self.line()}; {more}" if more else self.line())

    def line(self) -> str:
        """Return all that was counted so far."""
        parts = [f"{count:,} {name}" for name, count in sorted(self.counts.items())]
        seconds = time.monotonic() - self._started_s
        return (
            f"{self._what}: {self.done:,} of {self.total:,} in {seconds:.0f} s: {'; '.join(parts)}"
        )


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
