"""Timers inside a training program: the truth that its phases are held to.

`with timers("simulation"): ...` adds up where time went; `finish` prints one JSON line:
`start_ns`, `end_ns` (CLOCK_MONOTONIC, ns), `phase_ns` (phase -> ns, in the main thread), and counts.
"""

import argparse
import contextlib
import functools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any


class Timers:
    """Adds up nanoseconds and calls by phase. A phase inside a phase is taken out of the outer."""

    def __init__(self) -> None:
        self.phase_ns: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.start_ns = 0
        self._inner_ns = [0]

    def start(self) -> None:
        """Begin the time that shares are shares of."""
        self.start_ns = time.perf_counter_ns()

    @contextlib.contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time what stands below `with`."""
        self._inner_ns.append(0)
        begin = time.perf_counter_ns()
        try:
            yield
        finally:
            spent = time.perf_counter_ns() - begin
            self.phase_ns[phase] += spent - self._inner_ns.pop()
            self._inner_ns[-1] += spent

    def wrap(self, owner: Any, name: str, phase: str, count: str | None = None) -> None:
        """Time every call of `owner.name`."""
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if count is not None:
                self.counts[count] += 1
            with self(phase):
                return function(*args, **kwargs)

        setattr(owner, name, timed)

    def finish(self) -> None:
        """Print the truth."""
        end_ns = time.perf_counter_ns()
        truth = {
            "start_ns": self.start_ns,
            "end_ns": end_ns,
            "phase_ns": dict(self.phase_ns),
            **self.counts,
        }
        sys.stdout.write(json.dumps(truth) + "\n")
        sys.stdout.flush()


def parser(doc: str | None, **defaults: int) -> argparse.ArgumentParser:
    """Return a parser with a seed and the given numbers as options."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--seed", type=int, default=1)
    for name, value in defaults.items():
        made.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return made
