"""Renders a summary as CSV: one row per thread, times in integer nanoseconds."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlscope_analysis.summary.values import ProcessSummary, Summary, ThreadSummary

_COLUMNS = (
    "process_id", "pid", "process_name", "thread_id", "tid", "thread_name",
    "running_ns", "runnable_ns", "sleeping_ns", "blocked_ns", "lost_ns", "lifetime_ns",
    "switches", "voluntary_switches", "involuntary_switches", "unknown_switches", "migrations",
    "run_queue_waits", "run_queue_p50_ns", "run_queue_p99_ns", "run_queue_max_ns",
    "wakeups", "top_waker_kind", "top_waker_thread_id", "top_waker_wakeups",
)  # fmt: skip


def render_csv(summary: Summary) -> str:
    """Render every thread; an empty field is a value that is not known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for process in summary.processes:
        writer.writerows(_fields(process, thread) for thread in process.threads)
    return text.getvalue()


def _fields(process: ProcessSummary, thread: ThreadSummary) -> list[int | str | None]:
    measures = thread.measures
    times, switches, latency = measures.times, measures.switches, measures.latency
    top = measures.wakers[0] if measures.wakers else None
    waker = (top.kind, top.thread_id, top.wakeups) if top else (None, None, None)
    return [
        process.process_id, process.pid, process.name, thread.thread_id, thread.tid, thread.name,
        times.running_ns, times.runnable_ns, times.sleeping_ns, times.blocked_ns, times.lost_ns,
        times.lifetime_ns,
        switches.switches, switches.voluntary, switches.involuntary, switches.unknown,
        switches.migrations,
        latency.waits, latency.p50_ns, latency.p99_ns, latency.max_ns,
        measures.wakeups, *waker,
    ]  # fmt: skip
