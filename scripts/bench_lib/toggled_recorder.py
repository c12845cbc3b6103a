"""A recording with its default settings whose instruments are taken away and brought back.

Run with the pid of the target. Says `ready` once the governor has settled; then, until its input
ends, switches everything off and on in turn: the programs of the scheduler, the probes of calls,
the samples. Ends with one JSON line: `windows`, [is_on, start_ns, end_ns] each, by CLOCK_MONOTONIC,
and `cpu_ns`, what the recorder took while it was on. What it recorded is thrown away.
"""

from __future__ import annotations

import json
import random
import select
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace import target
from rlscope_trace.cli.instruments import default_sample_hz
from rlscope_trace.instruments.settings import InstrumentSettings
from rlscope_trace.probes import open_capture
from rlscope_trace.session import Session

if TYPE_CHECKING:
    from rlscope_trace.instruments.follower import Follower

_RING_BYTES = 32 << 20
# What the governor takes to decide: three trials of functions that are found one after the other.
_SETTLING_S = 8.0
# Of different lengths, so that no program can be in step with them.
_WINDOW_S = (0.18, 0.32)


class Switch:
    """Takes all instruments of a session away, and brings them back."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # Private on purpose: no user is to do this.
        follower: Follower = session._follower  # type: ignore[assignment]
        self._sampler = follower._sampler
        self._calls = follower._calls

    def off(self) -> None:
        """Leave the target alone."""
        if self._sampler is not None:
            self._sampler.suspend()
        if self._calls is not None:
            self._calls.switch.suspend()
        self._session.opened.capture.detach()

    def on(self) -> None:
        """Record again."""
        self._session.opened.capture.attach()
        if self._calls is not None:
            self._calls.switch.resume()
        if self._sampler is not None:
            self._sampler.resume()


def toggle(session: Session) -> tuple[list[tuple[bool, int, int]], int]:
    """Switch until the input ends; return the windows, and the CPU time of those that were on."""
    chance = random.Random(1)
    switch = Switch(session)
    windows = []
    used_ns = 0
    is_on = True
    while not _is_over(0):
        begun_ns, before_ns = time.monotonic_ns(), time.process_time_ns()
        _is_over(chance.uniform(*_WINDOW_S))
        windows.append((is_on, begun_ns, time.monotonic_ns()))
        used_ns += time.process_time_ns() - before_ns if is_on else 0
        if is_on:
            switch.off()
        else:
            switch.on()
        is_on = not is_on
    if not is_on:
        switch.on()
    return windows, used_ns


def _is_over(wait_s: float) -> bool:
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


def main() -> None:
    """Record, toggle, tell."""
    instruments = InstrumentSettings(
        sample_hz=default_sample_hz(), in_run_calibration="off"
    )  # Its windows would be in the way of ours.
    targets = target.resolve([sys.argv[1]], argv=[])
    with tempfile.TemporaryDirectory(prefix="rlscope-bench-") as directory:
        session = Session(
            open_capture(loader="libbpf", rung=None, ring_bytes=_RING_BYTES),
            Path(directory), {}, shim_session="", instruments=instruments, listens=False,
        )  # fmt: skip
        session.start(targets)
        _is_over(_SETTLING_S)
        say("ready")
        windows, cpu_ns = toggle(session)
        session.stop()
    say(json.dumps({"windows": windows, "cpu_ns": cpu_ns}))


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
