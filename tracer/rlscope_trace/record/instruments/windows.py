"""Short times of a recording in which it is seen what recording costs: in-run calibration.

Of three kinds, at random times and never two at once:

- account: the OS kernel counts how often the programs of ours run, and for how long;
- samples: no samples are taken, which loses nothing, as samples are a share of the time anyway;
- calls: the probes of calls are taken away; calls are missing then, and the trace says when.

What a program does in them, compared with what it does otherwise, is for the analysis to tell.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlscope_trace.record.instruments.log import ProbeLog
    from rlscope_trace.record.instruments.settings import InRunCalibration

Kind = Literal["account", "samples", "calls"]

_MS = 1_000_000
# How long a window is, and how long the next one of its kind is waited for on average; the windows
# of other kinds take their time as well.
_LENGTHS_NS: dict[Kind, int] = {"account": 200 * _MS, "samples": 200 * _MS, "calls": 250 * _MS}
_APART_NS: dict[Kind, int] = {"account": 800 * _MS, "samples": 4000 * _MS, "calls": 3000 * _MS}
# By InstrumentSettings.in_run_calibration.
KINDS: dict[InRunCalibration, tuple[Kind, ...]] = {
    "off": (),
    "light": ("account", "samples"),
    "full": ("account", "samples", "calls"),
}
# Twice as often while the recording is so young, so that a short one has some.
_YOUNG_NS = 5000 * _MS
# What was disturbed by a window has settled before the next one; and none is waited for for long.
_MIN_GAP_NS = 50 * _MS
_MAX_GAPS = 3


@dataclass(frozen=True, slots=True)
class CalibrationWindow:
    """One of these times."""

    kind: Kind
    start_ns: int
    end_ns: int


class Group(Protocol):
    """What can be turned off, or on, for a window."""

    @property
    def is_ready(self) -> bool:
        """Whether a window may begin now."""

    def begin(self) -> None:
        """Begin a window; OSError where the OS kernel refuses."""

    def end(self) -> None:
        """End it, and write down what it was; does nothing if there is none."""


def next_window(
    chance: random.Random, kinds: Iterable[Kind], *, now_ns: int, age_ns: int
) -> CalibrationWindow:
    """Decide on the next window, after one that ended now.

    kinds: at least one. age_ns: since the recording began; 0: there has been no window yet. Times
    are random, so that no program can be in step with them, with exponential gaps.
    """
    rates = {kind: 1 / _APART_NS[kind] for kind in kinds}
    mean_ns = 1 / sum(rates.values())
    if age_ns < _YOUNG_NS:
        mean_ns /= 2
    gap_ns = min(chance.expovariate(1 / mean_ns), _MAX_GAPS * mean_ns)
    if age_ns == 0 and "account" in rates:
        # Of a recording of a second this is all there will be.
        kind: Kind = "account"
    else:
        (kind,) = chance.choices(list(rates), list(rates.values()))
    start_ns = now_ns + _MIN_GAP_NS + round(gap_ns)
    return CalibrationWindow(kind, start_ns, start_ns + _LENGTHS_NS[kind])


class CalibrationWindows:
    """The thread that opens the windows of a recording, and closes them."""

    def __init__(
        self, groups: Mapping[Kind, Group], log: ProbeLog, *, seed: int | None = None
    ) -> None:
        self._groups = dict(groups)
        self._log = log
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin: from now on there are windows."""
        if self._groups:
            self._thread = threading.Thread(target=self._run, name="rls-windows", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the window that is open, if one is; there will be no other."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        started_ns = time.monotonic_ns()
        age_ns = 0
        while self._groups:
            now_ns = time.monotonic_ns()
            window = next_window(self._chance, self._groups, now_ns=now_ns, age_ns=age_ns)
            if self._stop.wait((window.start_ns - time.monotonic_ns()) / 1e9):
                return
            if self._groups[window.kind].is_ready:
                self._open(window)
            age_ns = time.monotonic_ns() - started_ns

    def _open(self, window: CalibrationWindow) -> None:
        group = self._groups[window.kind]
        try:
            try:
                group.begin()
                self._stop.wait((window.end_ns - time.monotonic_ns()) / 1e9)
            finally:
                group.end()
        except OSError as error:
            del self._groups[window.kind]
            reason = " ".join(str(error.args[-1] if error.args else error).split())
            self._log.append("no_windows", kind=window.kind, reason=reason)
