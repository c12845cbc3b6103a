"""A summary as an answer: what its tables hold, and what is said of the trace."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rlscope_analysis.result.column import Column, Role, Said, Scale, Unit
from rlscope_analysis.result.names import Part, ProcessName, ThreadName
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import NO_VALUE, Answer, Group, Table
from rlscope_analysis.summary.header import head_lines
from rlscope_analysis.summary.values import Latency, StateTimes, by_field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlscope_analysis.result.table import Values
    from rlscope_analysis.summary.values import Measures, ProcessSummary, Summary, ThreadSummary

# Longer names would push the numbers off the screen.
_LABEL_LENGTH = 40
_STATES = ("running", "runnable", "sleeping", "blocked", "lost")
_COUNTS = {
    "switches": "switches", "voluntary": "voluntary_switches",
    "involuntary": "involuntary_switches", "unknown": "unknown_switches",
    "migrations": "migrations",
}  # fmt: skip
_FACTS = (
    "trace", "schema_version", "is_complete", "started_realtime_ns", "duration_ns", "window",
    "meta", "losses", "notes", "observations", "overhead",
)  # fmt: skip
_LATENCIES = {of.name: f"run_queue_{of.name}" for of in fields(Latency)}
_COLUMNS = (
    Column("process_id", Unit.ID),
    Column("pid", Unit.ID),
    Column("process_name"),
    Column("thread_id", Unit.ID),
    Column("tid", Unit.ID),
    Column("thread_name"),
    *(Column(of.name, Unit.NS, additive=True) for of in fields(StateTimes)),
    *(Column(name, Unit.COUNT, additive=True) for name in _COUNTS.values()),
    *(
        Column(name, Unit.NS if name.endswith("_ns") else Unit.COUNT)
        for name in _LATENCIES.values()
    ),
    Column("wakeups", Unit.COUNT, additive=True),
    Column("top_waker_kind"),
    Column("top_waker_thread_id", Unit.ID),
    Column("top_waker_wakeups", Unit.COUNT),
)


def answer_of(summary: Summary, *, top: int) -> Answer:
    """Make an answer of a summary, with at most `top` wakers of each row."""
    rows = [_row(process, thread) for process in summary.processes for thread in process.threads]
    own = [_times(summary), _scheduling(summary, top)] if summary.has_states else []
    return Answer(
        tables=(*own, *(table for report in summary.reports for table in report.tables)),
        data=Table("thread", "", _COLUMNS, rows),
        facts=_facts(summary, top),
        head=tuple(head_lines(summary)),
        is_complete=summary.is_complete,
        facts_hold_rows=True,
    )


def _row(process: ProcessSummary, thread: ThreadSummary) -> Values:
    measures = thread.measures
    top = measures.wakers[0] if measures.wakers else None
    return (
        process.process_id, process.pid, process.name, thread.thread_id, thread.tid, thread.name,
        *by_field(measures.times).values(), *by_field(measures.switches).values(),
        *by_field(measures.latency).values(), measures.wakeups,
        *((top.kind, top.thread_id, top.wakeups) if top else (None, None, None)),
    )  # fmt: skip


def _times(summary: Summary) -> Table:
    # A column of zeros would only hide that nothing was lost.
    states = _STATES if summary.total.times.lost_ns else _STATES[:-1]
    columns = [
        Column(f"{state}_ns", Unit.NS, share_of="lifetime_ns", additive=True, scale=Scale.SHORT_MS)
        for state in states
    ]
    columns.append(Column("lifetime_ns", Unit.NS, additive=True, scale=Scale.SHORT_MS))
    return _by_process(
        summary,
        "time",
        "where the time went, in ms and % of the lifetime (a process: all its threads)",
        columns,
        lambda measures: by_field(measures.times),
    )


def _scheduling(summary: Summary, top: int) -> Table:
    counts = [name for name in _COUNTS if name != "unknown" or summary.total.switches.unknown]
    columns = [Column(name, Unit.COUNT, additive=True) for name in counts]
    columns += [
        Column(f"{quantile}_ns", Unit.NS, scale=Scale.US) for quantile in ("p50", "p99", "max")
    ]
    columns += [
        Column("wakeups", Unit.COUNT, additive=True),
        Column("wakers", Unit.RANKING, label="woken by"),
    ]
    return _by_process(
        summary,
        "scheduling",
        "scheduling, with run-queue latency in us",
        columns,
        lambda measures: {
            **by_field(measures.switches),
            **by_field(measures.latency),
            "wakeups": measures.wakeups,
            "wakers": _parts(measures, top),
        },
    )


def _parts(measures: Measures, top: int) -> tuple[Part, ...]:
    return tuple(
        Part(
            ThreadName(waker.name, waker.tid) if waker.kind == "thread" else str(waker.kind),
            waker.wakeups,
            measures.wakeups,
        )
        for waker in measures.wakers[:top]
    )


def _by_process(
    summary: Summary,
    name: str,
    title: str,
    columns: Sequence[Column],
    measured: Callable[[Measures], dict[str, Any]],
) -> Table:
    """Lay out one row per thread below its process, those that ran longest when there are many."""
    shown = (
        Column("thread", most=_LABEL_LENGTH, said=Said("no_name")),
        Column("tid", Unit.ID),
        *columns,
        Column("depth", Unit.COUNT, Role.HIDDEN),
        Column("ran_ns", Unit.NS, Role.HIDDEN, label="running time"),
        Column("rank", role=Role.HIDDEN),
    )

    def row(label: object, tid: object, measures: Measures, thread_id: int = 0) -> Values:
        running_ns = measures.times.running_ns
        values = {
            "thread": label, "tid": tid, "depth": 1, "ran_ns": running_ns,
            "rank": (running_ns, -thread_id),
        }  # fmt: skip
        values |= measured(measures)
        return tuple(values[column.name] for column in shown)

    groups = []
    for process in summary.processes:
        head = _process_name(process)
        groups.append(
            Group(note("states_not_measured", process=head), 0)
            if process.measures is None
            else Group(row(head, NO_VALUE, process.measures), len(process.threads))
        )
    return Table(
        name,
        title,
        shown,
        [
            row(thread.name, thread.tid, thread.measures, thread.thread_id)
            for process in summary.processes
            if process.measures is not None
            for thread in process.threads
        ],
        groups=tuple(groups),
        total=row("whole trace", NO_VALUE, summary.total),
        title_has_units=True,
        rank="rank",
        depth="depth",
        noun="thread",
        group_noun="process",
        left_out_of="ran_ns",
    )


def _process_name(process: ProcessSummary) -> ProcessName:
    return ProcessName(process.name, process.pid, is_known=process.process_id is not None)


def _facts(summary: Summary, top: int) -> dict[str, Any]:
    return {
        **{name: getattr(summary, name) for name in _FACTS},
        "gpu": summary.gpu if summary.gpu.processes or summary.gpu.refused else None,
        "total": _measures(summary.total if summary.has_states else None, top),
        "processes": [_process(process, top) for process in summary.processes],
        "views": {report.data.name: list(report.data.records()) for report in summary.reports},
    }


def _process(process: ProcessSummary, top: int) -> dict[str, Any]:
    return {
        **_named(process, "measures", "threads"),
        **_measures(process.measures, top),
        "threads": [
            {**_named(thread, "measures"), **_measures(thread.measures, top)}
            for thread in process.threads
        ],
    }


def _named(values: ProcessSummary | ThreadSummary, *but: str) -> dict[str, Any]:
    names = [of.name for of in fields(values) if of.name not in but]
    return {name: getattr(values, name) for name in names}


def _measures(measures: Measures | None, top: int) -> dict[str, Any]:
    if measures is None:
        return dict.fromkeys(("times", "switches", "run_queue_latency", "wakeups", "wakers"))
    return {
        "times": measures.times,
        "switches": measures.switches,
        "run_queue_latency": measures.latency,
        "wakeups": measures.wakeups,
        "wakers": measures.wakers[:top],
    }
