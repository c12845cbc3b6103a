"""Takes everything away that can be, and brings it back, again and again: only for benchmarks.

So the cost of all of it is seen inside one recording, by the clock of the target itself. What the
scheduler does meanwhile is lost: such a trace is good for nothing else.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING

from rlscope_trace.record.loaders.capture import ALTERNATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.instruments.log import ProbeLog
    from rlscope_trace.record.instruments.windows import Group

# Of the length of an interval: no program is to be in step with them.
_SPREAD = 0.25
# Of the intervals with everything there the OS kernel counts how long our programs run in so many:
# what that takes is not to be seen in the others.
_ACCOUNTED = 0.2


class Alternation:
    """The thread that does it, as long with everything as without."""

    def __init__(
        self, groups: Sequence[Group], account: Group, log: ProbeLog, length_s: float
    ) -> None:
        """length_s: how long each interval is, on average, with everything and without."""
        self._groups = groups
        self._account = account
        self._log = log
        self._length_s = length_s
        self._chance = random.Random()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, with everything there."""
        self._thread = threading.Thread(target=self._run, name="rls-windows", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Bring everything back for good."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        try:
            while not self._work_with_all():
                self._take_all_away()
        except OSError as error:
            self._log.append("no_windows", kind="all", reason=str(error))

    def _work_with_all(self) -> bool:
        """Wait with everything there; return whether that was the last time."""
        if self._chance.random() >= _ACCOUNTED:
            return self._wait()
        self._account.begin()
        try:
            return self._wait()
        finally:
            self._account.end()

    def _take_all_away(self) -> None:
        """Do it once."""
        start_ns = time.monotonic_ns()
        try:
            for group in self._groups:
                if group.is_ready:
                    group.begin()
            away_ns = time.monotonic_ns()
            self._wait()
        finally:
            back_ns = time.monotonic_ns()
            for group in self._groups:
                group.end()
        self._log.append(
            "window", probes="all", start_ns=start_ns, away_ns=away_ns, back_ns=back_ns,
            end_ns=time.monotonic_ns(),
        )  # fmt: skip

    def _wait(self) -> bool:
        return self._stop.wait(self._length_s * self._chance.uniform(1 - _SPREAD, 1 + _SPREAD))


def alternation_s() -> float:
    """Return how long each interval is to be; 0: this is no benchmark."""
    try:
        return max(0.0, float(os.environ.get(ALTERNATION, "0"))) / 1000
    except ValueError:
        return 0.0
