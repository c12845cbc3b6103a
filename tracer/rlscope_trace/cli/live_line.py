"""The live line of a recording: one line on stderr, redrawn in place."""

from __future__ import annotations

import sys
import time
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlscope_trace.record.session import Counters

_INTERVAL_S = 0.5
_CLEAR_LINE = "\r\x1b[K"


class ProgressMode(str, Enum):
    """When the live line is shown."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def shows_live_line(mode: ProgressMode, *, launched: bool) -> bool:
    """Decide: auto leaves a terminal that a launched program writes to to that program."""
    if mode is not ProgressMode.AUTO:
        return mode is ProgressMode.ALWAYS
    return sys.stderr.isatty() and not (launched and sys.stdout.isatty())


class LiveLine:
    """Elapsed time, records per second, processes and losses, twice a second."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._next_s = 0.0
        self._last: tuple[float, int] | None = None

    def update(self, counters: Counters) -> None:
        """Draw, unless the last time was just now."""
        now_s = time.monotonic()
        if not self._shown or now_s < self._next_s:
            return
        self._next_s = now_s + _INTERVAL_S
        rate = self._rate(now_s, counters.records)
        self._write(
            f"{_CLEAR_LINE}recording {counters.elapsed_ns / 1e9:.1f} s"
            f"  {rate:,.0f} records/s  {counters.processes} processes  {counters.lost:,} lost"
        )

    def clear(self) -> None:
        """Remove the line, for other words or for good."""
        if self._shown:
            self._write(_CLEAR_LINE)

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            # Whoever watched has left: no reason to end the recording.
            self._shown = False

    def _rate(self, now_s: float, records: int) -> float:
        before, self._last = self._last, (now_s, records)
        if before is None or now_s <= before[0]:
            return 0.0
        return (records - before[1]) / (now_s - before[0])
