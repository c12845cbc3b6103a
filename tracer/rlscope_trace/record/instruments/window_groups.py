"""What the windows of in-run calibration turn on and off: see windows.py."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace import _capture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.instruments.call_switch import CallSwitch
    from rlscope_trace.record.instruments.log import ProbeLog
    from rlscope_trace.record.loaders.btf import BtfLoader

_ALWAYS_ON = Path("/proc/sys/kernel/bpf_stats_enabled")


class Account:
    """The OS kernel counts how often our programs run, and for how long."""

    is_ready = True

    def __init__(self, programs: Sequence[tuple[str, int]], log: ProbeLog) -> None:
        self._clock = _capture.ProgramClock(programs)
        self._log = log
        self._is_open = False

    def begin(self) -> None:
        """Begin to count."""
        self._clock.start()
        self._is_open = True

    def end(self) -> None:
        """Write down what was counted."""
        if not self._is_open:
            return
        self._is_open = False
        start_ns, end_ns, programs = self._clock.stop()
        self._log.append(
            "programs", start_ns=start_ns, end_ns=end_ns, programs=programs,
            always_on=is_always_on(),
        )  # fmt: skip


class Samples:
    """No samples are taken."""

    is_ready = True

    def __init__(self, sampler: _capture.Sampler, log: ProbeLog) -> None:
        self._sampler = sampler
        self._log = log
        self._start_ns: int | None = None

    def begin(self) -> None:
        """Stop the clocks."""
        self._start_ns = self._sampler.suspend()

    def end(self) -> None:
        """Let them go on."""
        if self._start_ns is None:
            return
        end_ns = self._sampler.resume()
        self._log.append("window", probes="samples", start_ns=self._start_ns, end_ns=end_ns)
        self._start_ns = None


class Calls:
    """The probes of calls are away."""

    def __init__(self, switch: CallSwitch) -> None:
        self._switch = switch

    @property
    def is_ready(self) -> bool:
        """Whether the probes have been the same for a while."""
        return self._switch.is_settled

    def begin(self) -> None:
        """Take them away."""
        self._switch.suspend()

    def end(self) -> None:
        """Bring them back, unless something that was to be attached already has."""
        self._switch.resume()


class States:
    """No switches and wakeups are traced, which loses what threads do: for benchmarks alone."""

    is_ready = True

    def __init__(self, capture: BtfLoader, log: ProbeLog) -> None:
        self._capture = capture
        self._log = log
        self._start_ns: int | None = None

    def begin(self) -> None:
        """Take the programs away."""
        self._start_ns = time.monotonic_ns()
        self._capture.suspend()

    def end(self) -> None:
        """Bring them back."""
        if self._start_ns is None:
            return
        self._capture.resume()
        end_ns = time.monotonic_ns()
        self._log.append("window", probes="states", start_ns=self._start_ns, end_ns=end_ns)
        self._start_ns = None


def is_always_on(setting: Path = _ALWAYS_ON) -> bool:
    """Tell whether somebody has the OS kernel time all programs of the machine all the time."""
    try:
        return setting.read_text().strip() not in ("", "0")
    except OSError:
        return False
