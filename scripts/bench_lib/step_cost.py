"""What the default recording of a Python program costs it, in percent of its CPU time per step.

One process works for as long as it takes; one recorder is attached to it, and takes all that it has
attached away for some 250 ms out of every 500. The CPU time of the steps inside each window without
instruments is compared with that of the two windows around it: what the machine does otherwise is
the same there, or changes evenly. Many such windows tell far smaller differences apart than runs of
a minute do. They begin once the governor has settled. The trace says what its events cost: what is
left when that is taken off the windows with instruments is the error of the correction.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_lib.chosen import chosen
from bench_lib.figure import BenchError, Figure
from bench_lib.overhead import BIAS_BUDGET_PERCENT, MEAN_BIAS_BUDGET_PERCENT
from bench_lib.overhead_workloads import SETS
from bench_lib.recorder import REPOSITORY, Peer, Recorder
from bench_lib.windows import (
    LEAST_CHUNKS,
    added_percent,
    chunks_in,
    control_percent,
    neighbours,
    window_means,
    windows_of,
)
from rlscope_trace.record.medians import median_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench_lib.recorder import Bench
    from bench_lib.windows import Chunk, Window

# From so much CPU time per step on the first budget holds, below it the second.
_LONG_STEP_NS = 200_000
LONG_BUDGET_PERCENT, SHORT_BUDGET_PERCENT = 3, 5
WORKLOADS = (
    "a2c",
    "a2c-subproc",
    "ppo",
    "dqn",
    "sac",
    "dqn-pong",
    "halfcheetah",
    "humanoid",
    "mlp",
)
# What is recorded -> the options of record. `default` is measured unless WORKLOAD:SET is asked for;
# the last two tell what one event costs the workload.
_SETS = {
    "default": SETS["default"],
    "all": SETS["all"],
    "every-call": ("--transitions", "all", "--probe-budget", "100", "--sample-hz", "0"),
    "samples": ("--transitions", "off", "--sample-hz", "1999"),
}
_EVENT_OF_SET = {"every-call": "call", "samples": "sample"}
# Per value that is asked for: 9 give a minute of work, and some 110 windows without instruments.
_SECONDS_PER_RUN = 7
# A setting of the recorder for this alone; see rlscope_trace.record.loaders.capture.
_ALTERNATE, _WINDOW_MS = "RLSCOPE_TRACE_ALTERNATE_MS", 250
# Where a chunk takes 40 ms, as its one training step does.
_LONGER_WINDOWS_MS = {"dqn-pong": 600}
# What the governor takes to decide.
_SETTLING_S = 12

# Not by probe_hits, which leaves out where the state of a thread is lost: most of such a recording.
# Who pays for an event is a process of the tree, all of which counts.
_OVERHEAD_SQL = """
WITH event AS (
  SELECT 'switch' AS name, start_ns AS ts_ns FROM thread_state WHERE state = 'running'
  UNION ALL SELECT 'wakeup', start_ns FROM thread_state WHERE waker_thread_id IS NOT NULL
  UNION ALL SELECT 'sample', ts_ns FROM cpu_sample
  UNION ALL SELECT CASE WHEN s.is_dear THEN 'call_dear' ELSE 'call' END, c.start_ns
  FROM native_call AS c LEFT JOIN site AS s ON s.site_id = c.site_id
), cost AS (
  SELECT event AS name, sum(mean_ns) AS mean_ns FROM calibration WHERE used GROUP BY event
)
SELECT event.name, count(*) AS events, sum(cost.mean_ns) AS cost_ns
FROM event
JOIN cost ON cost.name = event.name
JOIN (VALUES {spans}) AS span(start_ns, end_ns)
  ON event.ts_ns >= span.start_ns AND event.ts_ns < span.end_ns
GROUP BY event.name
"""


@dataclass(frozen=True, slots=True)
class _Measured:
    chunks: list[Chunk]
    steps: int
    """In each chunk."""
    windows: list[Window]
    recorder_share: float
    """CPU time of the recorder, of the time that passed."""
    events: dict[str, tuple[float, float]]
    """By kind, how many a chunk has in the windows with everything, and what they cost there (ns),
    as the trace says."""

    @property
    def overhead_ns(self) -> float:
        """Return what all events of a chunk cost."""
        return sum(cost_ns for _, cost_ns in self.events.values())


def measure(bench: Bench) -> Iterator[Figure]:
    """Yield the cost on each workload, then the figures of all together."""
    names = chosen(bench.only, WORKLOADS, _SETS, plain=("default",))
    bench.calibrate()
    found: dict[str, list[Figure]] = {}
    for name, recorded in names:
        figures = _measure(bench, name, recorded)
        found.setdefault(recorded, []).extend(figures)
        yield from figures
    for recorded, figures in found.items():
        yield from _together(recorded, figures)


def _together(recorded: str, figures: Sequence[Figure]) -> Iterator[Figure]:
    """Yield how far off the corrections are of all workloads with this set."""
    biases = [figure for figure in figures if figure.either_way]
    sizes = [abs(figure.median) for figure in biases]
    yield Figure(
        f"all, {recorded}, mean size of the bias", "% of its CPU", (statistics.mean(sizes),),
        MEAN_BIAS_BUDGET_PERCENT if recorded == "default" else None,
    )  # fmt: skip
    intervals = [median_interval(figure.values) for figure in biases]
    held = [low <= 0 <= high for low, high in filter(None, intervals)]
    if held:
        yield Figure(
            f"all, {recorded}, intervals that hold 0", "% of workloads",
            (100 * statistics.mean(held),),
        )  # fmt: skip


def _measure(bench: Bench, name: str, recorded: str) -> list[Figure]:
    found = _record(bench, name, _SETS[recorded])
    means = window_means(found.chunks, found.windows)
    added = added_percent(means)
    if not added:
        raise BenchError(f"{name}: no window held {LEAST_CHUNKS} chunks", hint="more --runs")
    off_us = tuple(mean / found.steps / 1e3 for is_on, mean in means if not is_on and mean)
    budget = (
        LONG_BUDGET_PERCENT
        if statistics.median(off_us) * 1e3 >= _LONG_STEP_NS
        else SHORT_BUDGET_PERCENT
    )
    name = name if recorded == "default" else f"{name}, {recorded}"
    return [
        Figure(f"{name}, one step, untraced", "us of CPU", off_us),
        Figure(
            f"{name}, added in the target", "% of its CPU", added,
            budget if recorded == "default" else None,
        ),
        Figure(
            f"{name}, corrected", "% of its CPU", added_percent(means, found.overhead_ns),
            BIAS_BUDGET_PERCENT.get(recorded), either_way=True,
        ),
        *per_event(name, found.events, _EVENT_OF_SET.get(recorded), means),
        *_control(name, means),
        Figure(
            f"{name}, the recorder's own", "% of a CPU", (100 * found.recorder_share,),
            note="with what taking away and bringing back costs",
        ),
    ]  # fmt: skip


def per_event(
    name: str,
    events: dict[str, tuple[float, float]],
    event: str | None,
    means: Sequence[tuple[bool, float | None]],
) -> Iterator[Figure]:
    """Yield what one event of the set takes the program, without the few of other kinds."""
    own = [kind for kind in events if event and kind.startswith(event)]
    count = sum(events[kind][0] for kind in own)
    if count:
        others_ns = sum(cost_ns for kind, (_, cost_ns) in events.items() if kind not in own)
        values = tuple(
            (with_ns - others_ns - without_ns) / count / 1e3
            for with_ns, without_ns in neighbours(means)
        )
        yield Figure(f"{name}, a {event}", "us of CPU", values)


def _control(name: str, means: Sequence[tuple[bool, float | None]]) -> Iterator[Figure]:
    if values := control_percent(means):
        yield Figure(f"{name}, A/A", "% of its CPU", values, note="must hold 0")


def _record(bench: Bench, name: str, options: Sequence[str]) -> _Measured:
    program = str(REPOSITORY / "scripts/bench_lib/step_windows.py")
    workload = Peer.start([*bench.pinned(), bench.python, program, name])
    trace = bench.trace("step-cost")
    seconds = _SECONDS_PER_RUN * bench.runs
    try:
        workload.send(str(_SETTLING_S))
        recorder = Recorder.start(
            bench,
            ["--pid", str(workload.process.pid), "-o", str(trace), *options],
            prefix=["env", f"{_ALTERNATE}={_LONGER_WINDOWS_MS.get(name, _WINDOW_MS)}"],
        )
        recorder.wait_for("tracing pid")
        workload.answer()
        before_ns = recorder.cpu_ns()
        workload.send(str(seconds))
        workload.answered_within(seconds + 60)
        told = json.loads(workload.answer())
        own_ns = recorder.cpu_ns() - before_ns
        recorder.stop()
    finally:
        workload.close()
    query = "SELECT probes, start_ns, end_ns FROM calibration_window ORDER BY start_ns, end_ns"
    windows = windows_of(bench.query(trace, query))
    chunks = told["chunks"]
    events = _events(bench, trace, chunks, windows)
    return _Measured(chunks, told["steps"], windows, own_ns / seconds / 1e9, events)


def _events(
    bench: Bench, trace: Path, chunks: Sequence[Chunk], windows: Sequence[Window]
) -> dict[str, tuple[float, float]]:
    """Return the events by kind in the windows with everything, and what they cost, per chunk."""
    inside = [list(chunks_in(chunks, *window[1:])) for window in windows if window[0]]
    spans = [(held[0][0], held[-1][1]) for held in inside if held]
    values = ", ".join(f"({start_ns}, {end_ns})" for start_ns, end_ns in spans)
    rows = bench.query(trace, _OVERHEAD_SQL.format(spans=values))
    count = sum(map(len, inside))
    return {
        row["name"]: (row["events"] / count, float(row["cost_ns"] or 0) / count) for row in rows
    }
