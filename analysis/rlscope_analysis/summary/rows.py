"""Chooses the rows of the summary tables: the busiest threads, and totals over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.wording import count_of, percent, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.summary.values import Measures, ProcessSummary, Summary, ThreadSummary

_LABEL_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table; a line without measures only tells what was left out."""

    label: str
    tid: str
    measures: Measures | None
    is_total: bool


def rows_of(summary: Summary, *, limit: int | None) -> list[Row]:
    """List the processes, each with its threads, and a total that holds the hidden ones too.

    With a limit only that many threads are shown, those that ran longest in the whole trace; a
    process without any of them is hidden too.
    """
    shown = _shown(summary, limit)
    trace_ns = summary.total.times.running_ns
    rows: list[Row] = []
    hidden: list[ProcessSummary] = []
    for process in summary.processes:
        threads = [thread for thread in process.threads if thread.thread_id in shown]
        if process.measures is None:
            label = f"{_process_label(process)}: its thread states were not measured"
            rows.append(Row(label, "", None, is_total=False))
            continue
        if process.threads and not threads:
            hidden.append(process)
            continue
        rows.append(Row(_process_label(process), "", process.measures, is_total=True))
        rows += [_thread_row(thread) for thread in threads]
        rest = [thread for thread in process.threads if thread.thread_id not in shown]
        if rest:
            rows.append(_left_out(f"  ... {count_of(len(rest), 'more thread')}", rest, trace_ns))
    if hidden:
        rest = [thread for process in hidden for thread in process.threads]
        what = f"... {count_of(len(hidden), 'more process')} with {count_of(len(rest), 'thread')}"
        rows.append(_left_out(what, rest, trace_ns))
    rows.append(Row("whole trace", "", summary.total, is_total=True))
    return rows


def _shown(summary: Summary, limit: int | None) -> set[int]:
    threads = [thread for process in summary.processes for thread in process.threads]
    threads.sort(key=lambda thread: (-thread.measures.times.running_ns, thread.thread_id))
    return {thread.thread_id for thread in threads[:limit]}


def _process_label(process: ProcessSummary) -> str:
    if process.process_id is None:
        return "(process not known)"
    pid = "pid not known" if process.pid is None else f"pid {process.pid}"
    return f"{printable(process.name or '(no name)')[:_LABEL_LENGTH]} ({pid})"


def _thread_row(thread: ThreadSummary) -> Row:
    name = printable(thread.name or "(no name)")[:_LABEL_LENGTH]
    tid = "?" if thread.tid is None else str(thread.tid)
    return Row(f"  {name}", tid, thread.measures, is_total=False)


def _left_out(what: str, threads: Iterable[ThreadSummary], trace_ns: int) -> Row:
    hidden_ns = sum(thread.measures.times.running_ns for thread in threads)
    return Row(
        f"{what}, {percent(hidden_ns, trace_ns)} % of running time (--all)",
        "",
        None,
        is_total=False,
    )
