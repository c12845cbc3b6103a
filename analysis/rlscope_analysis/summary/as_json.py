"""Renders a summary as one JSON object, times in integer nanoseconds; see docs/summary.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rlscope_analysis.reports.answer import rows_of
from rlscope_analysis.result_format import json_text

if TYPE_CHECKING:
    from rlscope_analysis.summary.values import Measures, ProcessSummary, Summary, ThreadSummary


_NOT_MEASURED = dict.fromkeys(("times", "switches", "run_queue_latency", "wakeups", "wakers"))


def render_json(summary: Summary, *, top: int) -> str:
    """Render every process and thread, each with at most `top` wakers."""
    document = {
        "trace": summary.trace,
        "schema_version": summary.schema_version,
        "is_complete": summary.is_complete,
        "started_realtime_ns": summary.started_realtime_ns,
        "duration_ns": summary.duration_ns,
        "window": asdict(summary.window) if summary.window else None,
        "meta": summary.meta,
        "losses": [asdict(loss) for loss in summary.losses],
        "notes": list(summary.notes),
        "findings": list(summary.findings),
        "overhead": asdict(summary.overhead),
        "gpu": asdict(summary.gpu) if summary.gpu.processes or summary.gpu.refused else None,
        "total": _measures(summary.total if summary.has_states else None, top=top),
        "processes": [_process(process, top=top) for process in summary.processes],
        "views": {report.report.name: list(rows_of(report)) for report in summary.reports},
    }
    return json_text(document, indent=2) + "\n"


def _process(process: ProcessSummary, *, top: int) -> dict[str, Any]:
    return {
        "process_id": process.process_id,
        "parent_process_id": process.parent_process_id,
        "pid": process.pid,
        "name": process.name,
        "command": process.command,
        "exit_code": process.exit_code,
        "start_ns": process.start_ns,
        "end_ns": process.end_ns,
        **_measures(process.measures, top=top),
        "threads": [_thread(thread, top=top) for thread in process.threads],
    }


def _thread(thread: ThreadSummary, *, top: int) -> dict[str, Any]:
    return {
        "thread_id": thread.thread_id,
        "tid": thread.tid,
        "name": thread.name,
        "start_ns": thread.start_ns,
        "end_ns": thread.end_ns,
        "ended": thread.ended,
        **_measures(thread.measures, top=top),
    }


def _measures(measures: Measures | None, *, top: int) -> dict[str, Any]:
    if measures is None:
        return _NOT_MEASURED
    return {
        "times": asdict(measures.times),
        "switches": asdict(measures.switches),
        "run_queue_latency": asdict(measures.latency),
        "wakeups": measures.wakeups,
        "wakers": [asdict(waker) for waker in measures.wakers[:top]],
    }
