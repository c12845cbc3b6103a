"""What a probed call costs, by every way of probing that this OS kernel takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rlscope_trace import _capture
from rlscope_trace.record.calibrate.children import CalibrationError, Child, measured_cpu
from rlscope_trace.record.calibrate.estimate import added, calm
from rlscope_trace.record.calibrate.results import Values, failed, missing
from rlscope_trace.record.calibrate.traced import Traced
from rlscope_trace.record.calibrate.visits import Visit
from rlscope_trace.record.loaders.capture import bpf_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rlscope_trace.spool.costs import Cost

MODES = ("session", "multi", "perf")
_SIMULATOR = 2
# Sites of the library: 0 to 7 are cheap, 8 to 15 expensive. Of each kind there is one for each
# mode, and the last is for nobody.
_SITES = 16
_PLAIN = {"call": 7, "call_expensive": 15}
_FIRST = {"call": 0, "call_expensive": 8}
_GIVE, _TAKE = 3, 4
_NONE = -1
_TURNS = {"call": 400, "call_expensive": 50}
# Of the recorded durations: what an interrupt made longer is not the cost of a call.
_TRIMMED = 0.05


class CallLoops:
    """Calls of functions that do nothing, probed and not, in a traced process and in another."""

    events = ("call", "call_expensive", "bystander_call", "gil_release")

    def __init__(self, scratch: Path, modes: Sequence[str], pairs: int) -> None:
        """modes: the ways to measure, of those that work; none: the best one."""
        self._values = Values()
        self._pairs = pairs
        self._visits: list[Visit] = []
        self._refused: list[Cost] = []
        self._reasons: list[str] = []
        self._ways: dict[str, _capture.NativeProbes] = {}
        cpu = measured_cpu()
        self._children = [Child(cpu)]
        self._traced: Traced | None = None
        try:
            self._children.append(Child(cpu))
            self._traced = Traced(scratch / "calls", self._children[:1])
            self._attach(self._traced, modes)
        except BaseException:
            self.close()
            raise

    def _attach(self, traced: Traced, modes: Sequence[str]) -> None:
        where = self._children[0].ask("where")
        offsets = where["offsets"]
        for mode in modes or ("auto",):
            try:
                probes = _load(traced, mode)
                sites = [first + MODES.index(probes.mode) for first in _FIRST.values()]
                probes.attach(where["path"], [(offsets[at], at, _SIMULATOR) for at in sites])
            except OSError as error:
                self._refuse(mode, str(error.args[1] if len(error.args) > 1 else error))
                continue
            self._ways[probes.mode] = probes
        if not self._ways:
            raise CalibrationError("; ".join(dict.fromkeys(self._reasons)))
        next(iter(self._ways.values())).attach_gil(
            where["path"], [offsets[_GIVE]], [offsets[_TAKE]]
        )

    def _refuse(self, mode: str, reason: str) -> None:
        self._reasons.append(f"{mode}: {reason}")
        self._refused += [
            missing(event, failed(reason), mode) for event in (*_FIRST, "bystander_call")
        ]

    def visit(self) -> None:
        """Take one measurement of everything."""
        traced, bystander = self._children
        for mode, probes in self._ways.items():
            for event, first in _FIRST.items():
                self._visit_site(event, mode, probes, first + MODES.index(mode))
            turns = self._turns(bystander, [_PLAIN["call"], _NONE], [MODES.index(mode), _NONE])
            self._values.add("bystander_call", mode, added(turns["on"], turns["off"]))
        self._visit_gil(traced)

    def _visit_site(self, event: str, mode: str, probes: _capture.NativeProbes, site: int) -> None:
        before, start_ns = probes.counters().get(site, (0, 0))[0], time.monotonic_ns()
        plain, count = [_PLAIN[event], _NONE], _TURNS[event]
        turns = self._turns(self._children[0], plain, [site, _NONE], count)
        hits = probes.counters().get(site, (0, 0))[0] - before
        if hits != self._pairs * count:
            raise CalibrationError(f"{hits} of {self._pairs * count} probed calls were seen")
        total_ns, plain_ns = added(turns["on"], turns["off"]), calm(turns["off"])
        self._visits.append(
            Visit(event, mode, site, start_ns, time.monotonic_ns(), total_ns, plain_ns)
        )

    def _visit_gil(self, traced: Child) -> None:
        turns = self._turns(traced, [_PLAIN["call"], _PLAIN["call"]], [_GIVE, _TAKE])
        self._values.add("gil_release", "", added(turns["on"], turns["off"]))

    def _turns(
        self, child: Child, plain: list[int], sites: list[int], turns: int = _TURNS["call"]
    ) -> dict[str, Any]:
        return child.ask("calls", plain=plain, sites=sites, turns=turns, pairs=self._pairs)

    def finish(self) -> None:
        """Read what was recorded of the calls: the part of their cost that lies inside."""
        import numpy as np

        assert self._traced is not None
        for probes in self._ways.values():
            probes.detach()
        calls = self._traced.calls()
        for visit in self._visits:
            own = visit.durations_ns(calls)
            cut = int(len(own) * _TRIMMED)
            kept = np.sort(own)[cut : len(own) - cut]
            if len(kept):
                inside_ns = float(kept.mean()) - visit.plain_ns
                self._values.add_split(visit.event, visit.mode, visit.total_ns, inside_ns)

    def costs(self) -> list[Cost]:
        """Return the rows of what was measured."""
        return self._values.costs() + self._refused

    @property
    def lost(self) -> int:
        """How many records found no room."""
        return self._traced.lost if self._traced is not None else 0

    def close(self) -> None:
        """Take away all probes and end the processes."""
        for probes in self._ways.values():
            probes.detach()
        if self._traced is not None:
            self._traced.close()
        for child in self._children:
            child.close()


def _load(traced: Traced, mode: str) -> _capture.NativeProbes:
    capture = traced.capture
    return _capture.NativeProbes(
        str(bpf_file("native.bpf.o")), threads_fd=capture.task_storage_fd or -1,
        ring_fd=capture.ring_fd, loss_fd=capture.loss_fd, sites=_SITES, mode=mode,
    )  # fmt: skip
