"""Traces of programs that differ in something known: one thread, or more, and iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_builder import TIMER, Interval, TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rlscope_analysis.compare.run import Run

MS = 1_000_000
# From the end of a sleep until it runs: a part of the sleep.
WAKE = 1000


@dataclass(frozen=True)
class Step:
    """What an iteration does, one after the other, in ns."""

    simulation: int = 40 * MS
    inference: int = 20 * MS
    asleep: int = 0
    """In simulation, until a timer ends it."""
    backpropagations: int = 1
    backpropagation: int = 30 * MS
    rest: int = 1 * MS
    """In no operation."""
    helper: int = 0
    """A second thread runs beside backpropagation for so long."""


def write_trace(
    path: Path,
    steps: Sequence[Step],
    *,
    meta: dict[str, str] | None = None,
    extra: Callable[[TraceBuilder, int], None] | None = None,
) -> Path:
    """Write a trace of these iterations, each a range; extra(builder, process) adds to it."""
    builder = TraceBuilder(path)
    builder.coverage("thread_state")
    builder.meta |= meta or {}
    process = builder.process(pid=7, name="python")
    states: list[Interval] = []
    helper: list[Interval] = []
    ranges: list[tuple[int, int, str]] = []
    now = 0
    for step in steps:
        begun = now
        now += step.inference
        ranges.append((begun, now, "inference"))
        ranges.append((now, now + step.simulation + step.asleep, "simulation"))
        now += step.simulation + step.asleep
        states += [run(step.inference + step.simulation)]
        if step.asleep:
            states += [sleep(step.asleep - WAKE), woken(WAKE, by=TIMER)]
        helper += [sleep(now - begun), run(step.helper, cpu=1)]
        learned = now
        for _ in range(step.backpropagations):
            ranges.append((now, now + step.backpropagation, "backpropagation"))
            now += step.backpropagation
        states += [run(now + step.rest - learned)]
        now += step.rest
        helper += [sleep(now - learned - step.helper)]
        ranges.append((begun, now, "iteration"))
    thread = builder.thread(process, tid=7, states=states)
    if any(step.helper for step in steps):
        builder.thread(process, tid=8, states=helper)
    for start, end, name in sorted(ranges, key=lambda row: (row[0], -row[1])):
        builder.operation(thread, start, end, name)
    if extra is not None:
        extra(builder, process)
    return builder.write()


def read(path: Path, *, per: str | None = "iteration") -> Run:
    from rlscope_analysis.compare.read import read_sides

    ((found,), _) = read_sides([path], [], per=per)
    return found
