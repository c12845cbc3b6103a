"""Timers inside a training program: the truth that its phases are held to.

`with timers("simulation"): ...` adds up where time went; `finish` prints one JSON line:
`pid`, `start_ns`, `end_ns` (CLOCK_MONOTONIC, ns), `cpu_ns` (CPU time of the process in between),
`phase_ns` (phase -> ns, in the main thread), and counts.

Where RLSCOPE_TIMERS names a file, the phases are timed by the CPU time of the main thread, and so
is what lies between them, as `training`; they are written to that file, a line
{"operation": phase, "cpu_ns": ns} each: the truth that `rlscope-trace validate --timers` holds
corrected times to. With RL_TIMERS_RANGES=1 they are marked as NVTX ranges, too.
"""

import argparse
import functools
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """Adds up the time of one phase; a with-statement costs about as much as two clock reads."""

    def __init__(self, timers: "Timers", phase: str) -> None:
        self.timers, self.phase = timers, phase

    def __enter__(self) -> None:
        self.timers.begin(self.phase)

    def __exit__(self, *raised: object) -> None:
        self.timers.end()


class Ranges:
    """Marks the phases as NVTX ranges: in a trace they are the same operations as in the timers."""

    def __init__(self) -> None:
        import nvtx

        self._domain = nvtx.get_domain("rl_timers")
        self._attributes: dict[str, object] = {}

    def push(self, phase: str) -> None:
        attributes = self._attributes.get(phase)
        if attributes is None:
            attributes = self._domain.get_event_attributes(message=phase)
            self._attributes[phase] = attributes
        self._domain.push_range(attributes)

    def pop(self) -> None:
        self._domain.pop_range()


class Timers:
    """Adds up nanoseconds and calls by phase. A phase inside a phase is taken out of the outer."""

    def __init__(self) -> None:
        self.phase_ns: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.start_ns = self.start_cpu_ns = 0
        self._stack: list[str] = []
        self._since_ns = 0
        self._timers: dict[str, Timer] = {}
        self._file = os.environ.get("RLSCOPE_TIMERS")
        self._clock = time.thread_time_ns if self._file else time.perf_counter_ns
        self._ranges = Ranges() if self._file and os.environ.get("RL_TIMERS_RANGES") else None

    def start(self) -> None:
        """Begin the time that shares are shares of."""
        self.start_cpu_ns = time.process_time_ns()
        self.start_ns = time.perf_counter_ns()
        if self._file:
            self.begin("training")

    def __call__(self, phase: str) -> Timer:
        """Return what times that which stands below `with`."""
        timer = self._timers.get(phase)
        if timer is None:
            timer = self._timers[phase] = Timer(self, phase)
        return timer

    def begin(self, phase: str) -> None:
        """Leave the outer phase, if any, and enter this one."""
        now = self._clock()
        if self._stack:
            self.phase_ns[self._stack[-1]] += now - self._since_ns
        self._stack.append(phase)
        if self._ranges:
            self._ranges.push(phase)
        self._since_ns = self._next_ns(now)

    def end(self) -> None:
        """Go back to the outer phase, if any."""
        now = self._clock()
        self.phase_ns[self._stack.pop()] += now - self._since_ns
        if self._ranges:
            self._ranges.pop()
        self._since_ns = self._next_ns(now)

    def _next_ns(self, now_ns: int) -> int:
        # The shares of a file of timers are of all CPU time: what they cost is in there somewhere.
        return now_ns if self._file else self._clock()

    def wrap(self, owner: object, name: str, phase: str, count: str | None = None) -> None:
        """Time every call of `owner.name`."""
        function: Callable[..., object] = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: object, **kwargs: object) -> object:
            if count is not None:
                self.counts[count] += 1
            with self(phase):
                return function(*args, **kwargs)

        setattr(owner, name, timed)

    def finish(self) -> None:
        """Print the truth."""
        if self._file:
            self.end()
        end_ns = time.perf_counter_ns()
        truth = {
            "pid": os.getpid(),
            "start_ns": self.start_ns,
            "end_ns": end_ns,
            "cpu_ns": time.process_time_ns() - self.start_cpu_ns,
            "phase_ns": dict(self.phase_ns),
            **self.counts,
        }
        sys.stdout.write(json.dumps(truth) + "\n")
        sys.stdout.flush()
        if self._file:
            lines = (
                json.dumps({"operation": phase, "cpu_ns": cpu_ns}) + "\n"
                for phase, cpu_ns in self.phase_ns.items()
            )
            with Path(self._file).open("a") as file:
                file.writelines(lines)


def parser(doc: str | None, **defaults: int) -> argparse.ArgumentParser:
    """Return a parser with a seed and the given numbers as options."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--seed", type=int, default=1)
    for name, value in defaults.items():
        made.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return made
