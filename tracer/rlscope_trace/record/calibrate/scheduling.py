"""What a switch and a wakeup cost: of threads that are traced, and of others."""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING, Any

from rlscope_trace.record.calibrate.account import Runs, counted, per_run
from rlscope_trace.record.calibrate.children import CalibrationError, Child, measured_cpu
from rlscope_trace.record.calibrate.estimate import calm
from rlscope_trace.record.calibrate.results import Values
from rlscope_trace.record.calibrate.traced import Traced

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rlscope_trace.spool.costs import Cost

_TRIPS = 100
_ROUNDS = 2
_PER_ACCOUNT = 8
# Of each state, in one visit: what slows a machine down for a tenth of a second is not the cost.
# Letting go of tracepoints takes longer than that: there a batch is so many times as long.
_ALTERNATIONS = {"btf": 3, "tracefs": 1}
_LONGER = {"btf": 1, "tracefs": 4}
# Who is traced: both sides, the one that is timed, or neither.
_BOTH, _TIMED, _NEITHER = "both", "timed", "neither"


class SwitchLoops:
    """Two processes on one CPU that give it to each other, and one thread that wakes many.

    The time is that of the thread that gets the CPU, which is whom the OS kernel charges.
    """

    events = ("switch", "switch_in", "wakeup", "bystander_switch", "bystander_wakeup")

    def __init__(self, scratch: Path, rung: str, batches: int) -> None:
        """rung: of the captures, one that calibrate knows."""
        self._values = Values()
        self._rung = rung
        self._batches = batches * _LONGER[rung]
        self._bystander_run_ns = 0.0
        self._bystander_wake_ns: float | None = None
        self._captures: dict[str, Traced] = {}
        self._children: list[Child] = []
        self._fds: list[int] = []
        try:
            self._open(scratch)
        except BaseException:
            self.close()
            raise

    def _open(self, scratch: Path) -> None:
        (ping_in, pong_out), (pong_in, ping_out) = os.pipe(), os.pipe()
        self._fds = [ping_in, pong_out, pong_in, ping_out]
        cpu = measured_cpu()
        self._ping = Child(cpu, "batch", pass_fds=(ping_out, ping_in))
        self._children.append(self._ping)
        self._pong = Child(cpu, "batch", pass_fds=(pong_out, pong_in))
        self._children.append(self._pong)
        self._ping_fds = {"out": ping_out, "back": ping_in}
        self._pong_fds = {"out": pong_out, "back": pong_in}
        # Before it is traced: its threads are entered with it.
        self._ping.ask("wakes", rounds=1, batches=1)
        for who, children in (
            (_NEITHER, []), (_BOTH, [self._ping, self._pong]), (_TIMED, [self._ping]),
        ):  # fmt: skip
            self._captures[who] = Traced(scratch / f"{self._rung}-{who}", children, self._rung)

    def visit(self) -> None:
        """Take one measurement of everything: the medians of a few short ones."""
        times: dict[str, list[tuple[float, float]]] = {who: [] for who in self._captures}
        without = self._batch()
        for turn in range(_ALTERNATIONS[self._rung]):
            for who in self._captures:
                is_counted = turn == 0 and who != _TIMED
                before, traced, without = without, *self._on_and_off(who, is_counted=is_counted)
                off = [(first + last) / 2 for first, last in zip(before, without, strict=True)]
                times[who].append((traced[0] - off[0], traced[1] - off[1]))
        for who, added in times.items():
            trips_ns, wakes_ns = zip(*added, strict=True)
            self._note(who, statistics.median(trips_ns), statistics.median(wakes_ns))

    def _on_and_off(
        self, who: str, *, is_counted: bool
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return a batch with the programs of a capture, and one without any."""
        capture = self._captures[who].capture
        try:
            capture.attach()
            with_it = self._batch()
            if is_counted:
                self._note_programs(who, self._count(capture.programs()))
        finally:
            capture.detach()
        return with_it, self._batch()

    def _note(self, who: str, trip_ns: float, wake_ns: float) -> None:
        """Add a measurement: a round trip is one switch to the timed side, and one wakeup by it."""
        switch_ns = trip_ns - wake_ns
        if who == _BOTH:
            self._values.add("switch", self._rung, switch_ns)
            self._values.add("wakeup", self._rung, wake_ns)
        elif who == _NEITHER:
            self._values.add("bystander_switch", self._rung, switch_ns)
            self._values.add("bystander_wakeup", self._rung, wake_ns)
            self._bystander_wake_ns = wake_ns
        elif self._bystander_wake_ns is not None:
            # The thread that it wakes is not traced.
            self._values.add("switch_in", self._rung, trip_ns - self._bystander_wake_ns)

    def _count(self, programs: Sequence[tuple[str, int]]) -> dict[str, Runs]:
        """Return the OS kernel's account of the program of each event, over a batch of its own."""
        switches = counted(programs, lambda: self._pass(_PER_ACCOUNT))
        wakes = counted(programs, lambda: self._wake(_PER_ACCOUNT))
        return {
            "switch": switches.get("on_switch", (0, 0)),
            "wakeup": wakes.get("on_waking", (0, 0)),
        }

    def _note_programs(self, who: str, ran: dict[str, Runs]) -> None:
        """Add what one run took; of a switch of traced threads less what ran for others."""
        if who == _NEITHER:
            self._bystander_run_ns = per_run(ran["switch"]) or 0.0
            for event, runs in ran.items():
                self._values.add_program(f"bystander_{event}", self._rung, per_run(runs))
        elif who == _BOTH:
            own = 2 * _PER_ACCOUNT * _TRIPS
            run_ns = per_run(ran["switch"], own, self._bystander_run_ns)
            self._values.add_program("switch", self._rung, run_ns)
            self._values.add_program("wakeup", self._rung, per_run(ran["wakeup"]))

    def _wake(self, batches: int) -> list[float]:
        """Let one thread wake many; return ns per wakeup of each batch."""
        return list(self._ping.ask("wakes", rounds=_ROUNDS, batches=batches)["ns"])

    def _pass(self, batches: int) -> dict[str, Any]:
        """Let the two processes pass the CPU to each other."""
        self._pong.send("pong", trips=_TRIPS * batches, **self._pong_fds)
        told = self._ping.ask("ping", trips=_TRIPS, batches=batches, **self._ping_fds)
        self._pong.answer()
        return told

    def _batch(self) -> tuple[float, float]:
        """Return the time of a round trip and of a wakeup."""
        wakes = self._wake(self._batches)
        told = self._pass(self._batches)
        if min(*told["ns"], *wakes) <= 0:
            raise CalibrationError("the processes that pass the CPU to each other have ended")
        if abs(statistics.median(told["left"]) - 1) > 0.1:
            raise CalibrationError("the scheduler did not switch once per round trip")
        return calm(told["ns"]), calm(wakes)

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
        """Take away all programs and end the processes."""
        for traced in self._captures.values():
            traced.close()
        for child in self._children:
            child.close()
        for fd in self._fds:
            os.close(fd)
        self._fds = []
