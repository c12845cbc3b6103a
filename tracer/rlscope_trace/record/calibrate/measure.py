"""One calibration: all loops, visited in turn until the time is over."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from rlscope_analysis.schema.facts.qualities import GOOD, quality
from rlscope_trace.errors import TracerError
from rlscope_trace.record.backends import NothingWorksError, best_backend
from rlscope_trace.record.calibrate.calls import MODES, CallLoops
from rlscope_trace.record.calibrate.children import CalibrationError
from rlscope_trace.record.calibrate.cuda import CudaLoops
from rlscope_trace.record.calibrate.ranges import RangeLoops
from rlscope_trace.record.calibrate.results import NEVER, failed, missing
from rlscope_trace.record.calibrate.samples import SampleLoops
from rlscope_trace.record.calibrate.scheduling import SwitchLoops
from rlscope_trace.record.calibrate.traced import CAPTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlscope_analysis.schema.facts.qualities import Quality
    from rlscope_trace.spool.costs import Cost

# What has no loop of its own, and why: it happens as a part of what others measure.
_WITHOUT_LOOP = {"cuda_call": "as_any_call", "futex": "no_probe"}
CUDA_EVENTS = ("cuda_call", *CudaLoops.events)
# Fewer measurements than this give no interval.
_FEWEST_VISITS = 6
_TRIES = 3
# How much longer than planned it may take, on a machine that is so busy, to have that many.
_PATIENCE_S = 10.0
# But never longer than this in all, so that the command ends within half a minute.
_LONGEST_S = 27.0
# For taking probes away and reading what was recorded, as a part of the whole.
_RESERVE = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    limit_s: float
    modes: Sequence[str]
    """Ways to probe calls; none: the best one."""
    batches: int
    """Of each kind in one visit."""
    backends: Sequence[str] = ()
    """Of the captures, besides the best one."""
    visits: int = _FEWEST_VISITS
    """Measurements of each kind that are waited for."""


FULL = Plan(27.0, MODES, 24, tuple(CAPTURES))
SHORT = Plan(8.5, (), 16)
# Beside a calibration that is known.
CHECK = Plan(1.0, (), 8, visits=3)


class _Loops(Protocol):
    """What is measured together: opened by its constructor."""

    def visit(self) -> None: ...
    def finish(self) -> None: ...
    def costs(self) -> list[Cost]: ...
    def close(self) -> None: ...
    @property
    def lost(self) -> int: ...


@dataclass(slots=True)
class _Running:
    """Loops that are open, or why they are not."""

    events: Sequence[str]
    how: str = ""
    """The one way that they measure, if there are others."""
    most: int | None = None
    """So many measurements are enough: of what recordings seldom use."""
    loops: _Loops | None = None
    visits: int = 0
    """That succeeded."""
    failures: int = 0
    """In a row."""
    reasons: list[Quality] = field(default_factory=list)

    def open(self, make: Callable[[], _Loops]) -> None:
        """Make the loops; a failure is noted."""
        try:
            self.loops = make()
        except (OSError, TracerError) as error:
            self.fail(error)

    def visit(self) -> None:
        """Take one measurement; a failure is noted, and after some of them it is left alone."""
        if self.loops is None or self.is_over:
            return
        try:
            self.loops.visit()
        except (OSError, TracerError) as error:
            self.fail(error)
        else:
            self.visits += 1
            self.failures = 0

    def fail(self, error: Exception) -> None:
        """Note a failure."""
        words = error.args[1] if isinstance(error, OSError) and len(error.args) > 1 else error
        known = error.quality if isinstance(error, CalibrationError) else None
        self.reasons.append(known or failed(" ".join(str(words).split())))
        self.failures += 1

    @property
    def is_over(self) -> bool:
        """Whether nothing more is expected of it."""
        return self.loops is None or self.failures >= _TRIES or self.visits == self.most

    def is_wanting(self, visits: int) -> bool:
        """Tell whether it has fewer measurements than these, and may get more."""
        return not self.is_over and self.visits < visits


def measure(plan: Plan, progress: Callable[[float, float], None]) -> list[Cost]:
    """Return what every kind of event costs on this machine; takes about plan.limit_s.

    What cannot be measured has a row that says why. progress(done, total) is called in seconds.
    Raises OSError where there is no room for scratch files.
    """
    end_s = time.monotonic() + plan.limit_s * (1 - _RESERVE)
    start_s = time.monotonic()

    def tick() -> None:
        progress(min(time.monotonic() - start_s, plan.limit_s), plan.limit_s)

    with TemporaryDirectory(prefix="rlscope-calibrate-") as scratch:
        running: list[_Running] = []
        try:
            for loops, make in _makers(plan, Path(scratch)):
                running.append(loops)
                loops.open(make)
                tick()
            latest_s = min(max(end_s, time.monotonic()) + _PATIENCE_S, start_s + _LONGEST_S)
            _visit_all(running, plan.visits, (end_s, latest_s), tick)
            costs = [cost for each in running for cost in _finish(each)]
        finally:
            for each in running:
                if each.loops is not None:
                    each.loops.close()
    return costs + [missing(event, quality(code)) for event, code in _WITHOUT_LOOP.items()]


def _makers(plan: Plan, scratch: Path) -> list[tuple[_Running, Callable[[], _Loops]]]:
    best = _best_capture()
    switches = [
        _Running(SwitchLoops.events, backend, None if backend == best else plan.visits)
        for backend in dict.fromkeys((best, *plan.backends))
    ]
    return [
        *((each, partial(SwitchLoops, scratch, each.how, plan.batches // 2)) for each in switches),
        (_Running(CallLoops.events), lambda: CallLoops(scratch, plan.modes, plan.batches)),
        (_Running(SampleLoops.events), lambda: SampleLoops(scratch, 2.0 * plan.batches)),
        (_Running(RangeLoops.events), lambda: RangeLoops(scratch, plan.batches)),
        (_Running(CudaLoops.events), lambda: CudaLoops(scratch, plan.batches)),
    ]


def _best_capture() -> str:
    """Return the backend that a recording takes here; where none works, the first one."""
    try:
        return best_backend()
    except NothingWorksError:
        return next(iter(CAPTURES))


def _visit_all(
    running: list[_Running], visits: int, ends_s: tuple[float, float], tick: Callable[[], None]
) -> None:
    """Visit all in turn: until the first end, and so often at least, but not beyond the second."""
    end_s, latest_s = ends_s
    round_s = 0.0
    while not all(each.is_over for each in running):
        now_s = time.monotonic()
        is_wanting = any(each.is_wanting(visits) for each in running)
        if now_s + round_s >= (latest_s if is_wanting else end_s):
            return
        for each in running:
            each.visit()
            tick()
        round_s = time.monotonic() - now_s


def _finish(each: _Running) -> list[Cost]:
    """Return the rows of loops, one at least for each of their events."""
    costs: list[Cost] = []
    if each.loops is not None:
        try:
            each.loops.finish()
        except (OSError, RuntimeError, TracerError) as error:
            each.fail(RuntimeError(f"what was recorded cannot be read: {error}"))
        costs = each.loops.costs()
        if each.loops.lost:
            lossy = quality("records_lost", each.loops.lost)
            costs = [replace(c, quality=lossy) if c.quality == GOOD else c for c in costs]
    known = {cost.event for cost in costs}
    why = each.reasons[-1] if each.reasons else NEVER
    return costs + [missing(event, why, each.how) for event in each.events if event not in known]
