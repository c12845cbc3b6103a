"""What a switch and a wakeup cost: of threads that are traced, and of others."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from rlscope_trace.record.calibrate.children import CalibrationError, Child, measured_cpu
from rlscope_trace.record.calibrate.estimate import calm
from rlscope_trace.record.calibrate.results import Values
from rlscope_trace.record.calibrate.traced import Traced

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.spool.costs import Cost

_TRIPS = 100
_ROUNDS = 2
# Of each state, in one visit: what slows a machine down for a tenth of a second is not the cost.
# Letting go of tracepoints takes longer than that: there a batch is so many times as long.
_TURNS = {"btf": 3, "tracefs": 1}
_LONGER = {"btf": 1, "tracefs": 4}
# What is measured of threads that are traced, and of those that are not.
_EVENTS = {True: ("switch", "wakeup"), False: ("bystander_switch", "bystander_wakeup")}


class SwitchLoops:
    """Two threads on one CPU that give it to each other, and one that wakes many.

    The time is that of the thread that gets the CPU, which is whom the OS kernel charges.
    """

    events = (*_EVENTS[True], *_EVENTS[False])

    def __init__(self, scratch: Path, backend: str, batches: int) -> None:
        """backend: of the captures, one that calibrate knows."""
        self._values = Values()
        self._backend = backend
        self._batches = batches * _LONGER[backend]
        self._captures: dict[bool, Traced] = {}
        self._child = Child(measured_cpu(), "batch")
        try:
            # Before it is traced: its threads are entered with it.
            self._child.ask("wakes", rounds=1, batches=1)
            self._child.ask("switches", trips=1, batches=1)
            for is_traced in _EVENTS:
                children = [self._child] if is_traced else []
                folder = scratch / f"{backend}-{is_traced}"
                self._captures[is_traced] = Traced(folder, children, backend)
        except BaseException:
            self.close()
            raise

    def visit(self) -> None:
        """Take one measurement of everything: the medians of a few short ones."""
        added: dict[bool, list[tuple[float, float]]] = {is_traced: [] for is_traced in _EVENTS}
        without = self._batch()
        for _ in range(_TURNS[self._backend]):
            for is_traced, traced in self._captures.items():
                before = without
                try:
                    traced.capture.attach()
                    trip_ns, wake_ns = self._batch()
                finally:
                    traced.capture.detach()
                without = self._batch()
                off = [(first + last) / 2 for first, last in zip(before, without, strict=True)]
                added[is_traced].append((trip_ns - off[0], wake_ns - off[1]))
        for is_traced, (switch, wakeup) in _EVENTS.items():
            trip_ns, wake_ns = map(statistics.median, zip(*added[is_traced], strict=True))
            # A round trip is one switch to the timed side, and one wakeup by it.
            self._values.add(switch, self._backend, trip_ns - wake_ns)
            self._values.add(wakeup, self._backend, wake_ns)

    def _batch(self) -> tuple[float, float]:
        """Return the time of a round trip and of a wakeup."""
        wakes = self._child.ask("wakes", rounds=_ROUNDS, batches=self._batches)["ns"]
        reported = self._child.ask("switches", trips=_TRIPS, batches=self._batches)
        if min(*reported["ns"], *wakes) <= 0:
            raise CalibrationError("the threads that pass the CPU to each other have ended")
        if abs(statistics.median(reported["left"]) - 1) > 0.1:
            raise CalibrationError("the scheduler did not switch once per round trip")
        return calm(reported["ns"]), calm(wakes)

    def costs(self) -> list[Cost]:
        """Return the rows of what was measured."""
        return self._values.costs()

    def finish(self) -> None:
        """Nothing is left to be read."""

    @property
    def lost(self) -> int:
        """How many records found no room."""
        return sum(traced.lost for traced in self._captures.values())

    def close(self) -> None:
        """Take away all programs and end the process."""
        for traced in self._captures.values():
            traced.close()
        self._child.close()
