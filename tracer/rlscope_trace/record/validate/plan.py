"""In which order runs are made, and the loop over them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from rlscope_trace.record.validate.pairs import Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rlscope_trace.record.validate.runs import Run, Runner
    from rlscope_trace.record.validate.trace_figures import TraceFigures

    ReadTrace = Callable[[Path, int], TraceFigures]

# Below this start-up and chance decide, not the program.
SHORT_NS = 1_000_000_000


def orders(runs: int, seed: int | None = None) -> list[bool]:
    """Return for each pair whether its traced run comes first: half of them, in random order.

    So a machine that gets slower, or beats in some time, favours neither.
    """
    traced_first = [index % 2 == 1 for index in range(runs)]
    random.Random(seed).shuffle(traced_first)
    return traced_first


def warm_up(runner: Runner, trace: Path, read: ReadTrace) -> tuple[Run, TraceFigures]:
    """Make a traced run that does not count: files get cached, and costs calibrated.

    It also finds a program or options that do not work before all the others are made.
    """
    run = runner.traced(trace)
    return run, read(trace, run.pid)


def run_pairs(runner: Runner, runs: int, trace_of: Callable[[int], Path], read: ReadTrace,
              seed: int | None = None) -> Iterator[Pair]:  # fmt: skip
    """Yield each pair as soon as both of its runs are made; `trace_of` names the trace of each.

    The trace is read between runs, never beside one.
    """
    for number, traced_first in enumerate(orders(runs, seed), 1):
        before = None if traced_first else runner.untraced()
        traced = runner.traced(trace_of(number))
        untraced = before or runner.untraced()
        yield Pair(untraced, traced, read(trace_of(number), traced.pid), traced_first)
