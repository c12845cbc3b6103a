"""Every slice of a trace is in the file that is read back: none lost, none invented."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlscope_analysis.export.timeline import Timeline
from rlscope_analysis.schema.vocabulary import CUDA_CALL_KINDS, GPU_ACTIVITY_KINDS, LAYERS, WAITS
from rlscope_analysis.trace import Trace
from rlscope_analysis.window import SPAN_SQL
from timeline_reader import ReadSlice, ReadTimeline, read_chrome, read_perfetto
from trace_builder import (
    INTERRUPT,
    Interval,
    TraceBuilder,
    blocked,
    lost,
    preempted,
    run,
    sleep,
    woken,
)

READERS = {"perfetto": read_perfetto, "chrome": read_chrome}
FORMATS = pytest.mark.parametrize("form", sorted(READERS))

# What the tables say, by SQL on the views that users have: thread, or process, start, end, name,
# then what tells slices of different tables and with other arguments apart.
TRUTH = {
    "thread_state": "SELECT thread_id, start_ns, end_ns, state, cpu, waker_thread_id"
    " FROM thread_state",
    "wait": "SELECT thread_id, start_ns, end_ns, kind FROM wait",
    "operation": "SELECT thread_id, start_ns, end_ns, name, domain, category, source"
    " FROM operation",
    "native_call": "SELECT thread_id, start_ns, end_ns, symbol, c.layer, parent_layer, depth"
    " FROM native_call AS c JOIN site USING (site_id)",
    "cuda_call": "SELECT thread_id, start_ns, end_ns, name, kind, correlation_id FROM cuda_call",
    "async_range": "SELECT process_id, start_ns, end_ns, name, domain FROM async_range",
    "gpu_activity": "SELECT process_id, start_ns, end_ns, coalesce(name, '(name not known)'), kind,"
    " device_id, context_id, stream_id, correlation_id, graph_id, bytes FROM gpu_activity",
}
LABELS = {
    "thread_state": ("cpu", "waker_thread_id"),
    "wait": (),
    "operation": ("domain", "category", "source"),
    "native_call": ("layer", "parent_layer", "depth"),
    "cuda_call": ("kind", "correlation"),
    "async_range": ("domain",),
    "gpu_activity": ("device", "context", "stream", "correlation", "graph id", "bytes"),
}
KINETO = {
    "user_annotation": "operation",
    "cpu_op": "native_call",
    "python_function": "native_call",
    "cuda_runtime": "cuda_call",
    "cuda_driver": "cuda_call",
    "hip_runtime": "cuda_call",
    "kernel": "gpu_activity",
    "gpu_memcpy": "gpu_activity",
    "gpu_memset": "gpu_activity",
    "cuda_sync": "gpu_activity",
    "gpu_graph": "gpu_activity",
}
ACTIVITY_WORDS = {"gpu_memcpy": "memcpy", "gpu_memset": "memset", "cuda_sync": "sync",
                  "gpu_graph": "graph"}  # fmt: skip


def filled(builder: TraceBuilder) -> Trace:
    connection = duckdb.connect()
    builder.with_views = False
    builder.fill(connection)
    return Trace(Path("in-memory"), connection, 1)


def export(trace: Trace, form: str, **window: str) -> ReadTimeline:
    timeline = Timeline(trace, form, **window)
    read = READERS[form](b"".join(timeline.pieces()))
    assert timeline.slices == len(read.slices)
    assert (timeline.unplaced, timeline.unreadable) == (0, 0)
    return read


def slices_of(read: ReadTimeline) -> Counter[tuple[Any, ...]]:
    """Return the slices in the shape of `expected`."""
    return Counter(
        row for piece in read.slices if piece.category != "lifetime" for row in [as_row(piece)]
    )


def as_row(piece: ReadSlice) -> tuple[Any, ...]:
    values = dict(piece.arguments)
    table = KINETO.get(piece.category, piece.category)
    if table in GPU_ACTIVITY_KINDS:
        table = "gpu_activity"
    row = [table, piece.pid, piece.start_ns, piece.end_ns, piece.name]
    if table == "gpu_activity":
        row[1] = "any"
        row.append(ACTIVITY_WORDS.get(piece.category, piece.category))
        values = {label: value for label, value in values.items() if value != -1}
    row += [values.get(label) for label in LABELS[table]]
    return tuple(row)


def expected(trace: Trace) -> Counter[tuple[Any, ...]]:
    """Return table, owner, start, end, name and arguments of every row of the trace."""
    pid_of_process = {key: 1000 + key for key in range(10)}
    pid_of_thread = {
        thread: pid_of_process[process]
        for thread, process in trace.connection.execute(
            "SELECT thread_id, process_id FROM thread"
        ).fetchall()
    }
    rows: Counter[tuple[Any, ...]] = Counter()
    for table, query in TRUTH.items():
        for owner, *rest in trace.connection.execute(query).fetchall():
            pid: Any = "any" if table == "gpu_activity" else pid_of_process[owner]
            if table not in {"gpu_activity", "async_range"}:
                pid = pid_of_thread[owner]
            rows[(table, pid, *rest)] += 1
    return rows


NAMES = st.one_of(
    st.sampled_from(
        ["step", "forward", "", '"quoted" \\ back', "tab\tnew\nline", "名前 🎉", "\x7f\x01"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
)
SPANS = st.tuples(st.integers(0, 60), st.integers(0, 40)).map(lambda pair: (pair[0], sum(pair)))
STATES = st.lists(
    st.builds(
        lambda kind, length: kind(length),
        st.sampled_from([run, sleep, preempted, blocked, lost,
                         lambda length: woken(length, by=INTERRUPT),
                         lambda length: woken(length, by=1), lambda length: run(length, cpu=3)]),
        st.integers(1, 9),
    ),
    max_size=6,
)  # fmt: skip


@st.composite
def builders(draw: st.DrawFn) -> TraceBuilder:
    """Make traces of two processes and three threads in which anything may overlap anything."""
    origin = draw(st.sampled_from([0, 10**14, 1_700_000_000_000_000_000]))
    builder = TraceBuilder(Path("in-memory"))
    processes = [
        builder.process(pid=1001, end_ns=origin + 200),
        builder.process(pid=1002, parent=1, command="python 'x'", end_ns=origin + 200),
    ]
    threads = [
        builder.thread(process, tid=tid, states=draw(STATES), start_ns=origin)
        for process, tid in ((processes[0], 1001), (processes[0], 7), (processes[1], 1002))
    ]

    def spans(limit: int = 5) -> list[tuple[int, int]]:
        return [
            (origin + start, origin + end) for start, end in draw(st.lists(SPANS, max_size=limit))
        ]

    for thread in threads:
        for start, end in spans():
            builder.operation(thread, start, end, draw(NAMES), domain=draw(st.none() | NAMES),
                              source=draw(st.sampled_from(["nvtx", "auto"])))  # fmt: skip
        for start, end in spans():
            builder.native_call(thread, start, end, draw(st.sampled_from(LAYERS[1:4])), draw(NAMES))
        for start, end in spans(3):
            builder.wait(thread, start, end, draw(st.sampled_from(WAITS[1:])))
        for start, end in spans():
            builder.cuda_call(thread, start, end, kind=draw(st.sampled_from(CUDA_CALL_KINDS)),
                              name=draw(st.sampled_from(["cudaLaunchKernel", "cuInit", "hipFree"])),
                              correlation_id=draw(st.none() | st.integers(1, 9)))  # fmt: skip
    for process in processes:
        for start, end in spans(3):
            builder.async_range(process, start, end, draw(NAMES), draw(st.none() | NAMES))
        for start, end in spans(8):
            builder.gpu_activity(
                process, start, end, kind=draw(st.sampled_from(GPU_ACTIVITY_KINDS[1:])),
                name=draw(st.none() | NAMES), device_id=draw(st.integers(0, 1)),
                stream_id=draw(st.none() | st.sampled_from([7, 8])),
                correlation_id=draw(st.none() | st.integers(1, 9)),
                graph_id=draw(st.none() | st.just(2)),
                byte_count=draw(st.none() | st.integers(0, 2**62)),
            )  # fmt: skip
    return builder


# A database takes longer to make than to export: each one is exported in every format.
@settings(deadline=None, max_examples=12)
@given(builders())
def test_what_is_read_back_is_what_the_database_holds(builder: TraceBuilder) -> None:
    with filled(builder) as trace:
        for form in READERS:
            assert slices_of(export(trace, form)) == expected(trace)


SHUFFLED = (
    "operation_coded", "native_call_coded", "cuda_call_coded", "gpu_activity_coded",
    "thread_state_coded", "wait_coded", "thread", "process",
)  # fmt: skip


@settings(deadline=None, max_examples=12)
@given(builders(), st.integers(0, 99))
def test_tables_out_of_order_are_put_in_order(builder: TraceBuilder, seed: int) -> None:
    with filled(builder) as trace:
        for table in SHUFFLED:
            trace.connection.execute(
                f"CREATE TEMP TABLE kept AS FROM {table} ORDER BY hash(rowid + {seed});"
                f" DELETE FROM {table}; INSERT INTO {table} FROM kept; DROP TABLE kept"
            )
        for form in READERS:
            assert slices_of(export(trace, form)) == expected(trace)


@settings(deadline=None, max_examples=12)
@given(builders(), st.integers(0, 90), st.integers(1, 60))
def test_a_window_keeps_whole_what_reaches_into_it(
    builder: TraceBuilder, start: int, length: int
) -> None:
    with filled(builder) as trace:
        ((origin, _),) = trace.connection.execute(SPAN_SQL).fetchall()
        first, last = origin + start, origin + start + length

        def reaches(row: tuple[Any, ...]) -> bool:
            return bool(row[2] < last and (row[3] > first or row[2] >= first))

        chosen = Counter({row: n for row, n in expected(trace).items() if reaches(row)})
        for form in READERS:
            read = export(trace, form, start=f"{start}ns", end=f"{start + length}ns")
            assert slices_of(read) == chosen


@FORMATS
def test_states_without_gaps_last_as_long_as_their_thread(form: str) -> None:
    builder = TraceBuilder(Path("in-memory"))
    process = builder.process(pid=5, end_ns=100)
    states: list[Interval] = [run(10), sleep(20), woken(5, by=INTERRUPT), run(15, cpu=1)]
    builder.thread(process, tid=5, states=[*states, preempted(10), blocked(40)])
    with filled(builder) as trace:
        read = export(trace, form)
    total: Counter[str] = Counter()
    for piece in read.slices:
        if piece.category == "thread_state":
            total[piece.name] += piece.end_ns - piece.start_ns
    assert total == {"running": 25, "sleeping": 20, "runnable": 15, "blocked": 40}
