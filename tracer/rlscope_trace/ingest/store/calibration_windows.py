"""Writes what was seen in the short times of a recording that tell what recording costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.ingest.writer.trace_stats import TraceStat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlscope_trace.ingest.store.probe_facts import NotedWindow, ProbeFacts
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

# The events that a program is run for; one that is not listed belongs to none that is counted.
# All run for the whole machine, or for whoever executes the same file: also where no traced thread
# is concerned.
_EVENTS = {
    "on_switch": "switch",
    "on_waking": "wakeup",
    "on_wakeup_new": "wakeup",
    # At entry and return of a traced thread, else at entry only.
    "session_call": "call",
    "enter_call": "call",
    "return_call": "call",
    "on_tick": "sample",
    "release_gil": "gil_release",
    "take_gil": "gil_release",
}
# Probes were being taken away or brought back: neither with them nor without.
CHANGING = "changing"


def insert_calibration_windows(trace: TraceWriter, facts: ProbeFacts, end_ns: int) -> None:
    """Fill calibration_window and program_time.

    end_ns: of the trace, for a window that was open when the recorder was killed.
    """
    windows = sorted(_windows(facts.windows, end_ns), key=lambda window: window[1:])
    trace.insert_rows("calibration_window", windows)
    programs = [
        (one.program, _EVENTS.get(one.program), one.start_ns, one.end_ns, one.runs, one.time_ns)
        for one in facts.programs
    ]
    trace.insert_rows("program_time", programs)


def _windows(told: Sequence[NotedWindow], trace_end_ns: int) -> Iterator[tuple[str, int, int]]:
    for window in told:
        end_ns = max(trace_end_ns, window.start_ns) if window.end_ns is None else window.end_ns
        yield window.probes, window.start_ns, end_ns
        if window.away_ns is not None:
            yield CHANGING, window.start_ns, window.away_ns
        if window.back_ns is not None:
            yield CHANGING, window.back_ns, end_ns


def calls_away(facts: ProbeFacts) -> Fact | None:
    """Return for how long no calls were recorded; None if they always were."""
    windows = _calls_off(facts)
    if not windows:
        return None
    ns = sum(window.end_ns - window.start_ns for window in windows if window.end_ns is not None)
    code = "calls_paused_once" if len(windows) == 1 else "calls_paused"
    if any(window.end_ns is None for window in windows):
        code = "calls_paused_to_kill"
    return Fact(code, count=len(windows), duration_ns=ns)


def window_losses(facts: ProbeFacts) -> Iterator[TraceStat]:
    """Tell of the calls that are missing in windows: how many times, not how many calls."""
    windows = _calls_off(facts)
    if windows:
        first_ns = min(window.start_ns for window in windows)
        yield TraceStat("calls_paused", len(windows), first_ns)


def _calls_off(facts: ProbeFacts) -> list[NotedWindow]:
    return [window for window in facts.windows if window.probes == "calls"]
