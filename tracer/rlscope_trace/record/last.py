"""Keeps the last seconds of a recording: begins segments of its spool, and drops those before.

Five or six segments of a quarter of that time are on the disk. One is dropped when those after it
reach back as far as is wanted, and before that only where the disk has no room for a new one.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.spool.segments import drop_before, segment_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlscope_trace import _capture

PARTS = 4


@dataclass(frozen=True, slots=True)
class _Begun:
    number: int
    since_ns: int


class LastKept:
    """The segments of one recording."""

    def __init__(self, directory: Path, last_ns: int, clock_ns: Callable[[], int]) -> None:
        """last_ns: what is kept at least, and up to a quarter more."""
        self._directory = directory
        self._last_ns = last_ns
        self._clock_ns = clock_ns
        self._begun = deque([_Begun(0, clock_ns())])
        self._next_number = 1
        self._next_ns = clock_ns() + last_ns // PARTS
        self._former_bytes = 0
        self._keeps_all = False

    @property
    def from_ns(self) -> int:
        """From when on everything is kept, at least; 0: since the beginning."""
        first = self._begun[0]
        return first.since_ns if first.number else 0

    def is_due(self) -> bool:
        """Tell whether a new segment should begin."""
        return not self._keeps_all and self._clock_ns() >= self._next_ns

    def keep_all(self) -> None:
        """Drop nothing from here on."""
        self._keeps_all = True

    def rotate(
        self,
        spool: _capture.SpoolWriter,
        shims: _capture.ShimCollector,
        *,
        missed_runs: int,
        failed_updates: int,
    ) -> None:
        """Begin a segment, and drop what is older than is wanted."""
        number, self._next_number = self._next_number, self._next_number + 1
        try:
            is_begun = shims.rotate(number) and spool.rotate(
                number, missed_runs=missed_runs, failed_updates=failed_updates
            )
        except OSError:
            is_begun = False
        now_ns = self._clock_ns()
        if not is_begun:
            # The newest seconds are worth more than the oldest.
            self._drop(until=min(len(self._begun) - 1, 1))
            return
        spool.append_clock()
        self._begun.append(_Begun(number, now_ns))
        self._next_ns = now_ns + self._last_ns // PARTS
        covering = [
            place
            for place, begun in enumerate(self._begun)
            if begun.since_ns <= now_ns - self._last_ns
        ]
        self._drop(until=covering[-1] if covering else 0)
        self._former_bytes = segment_bytes(self._directory, before=number)

    def bytes(self, written: int) -> int:
        """Return how much is on the disk; written: of the segment that is written now."""
        return self._former_bytes + written

    def _drop(self, until: int) -> None:
        """Drop so many segments, the oldest ones."""
        if until <= 0:
            return
        for _ in range(until):
            self._begun.popleft()
        with suppress(OSError):
            drop_before(self._directory, self._begun[0].number)
