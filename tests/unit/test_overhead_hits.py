"""Where the events that cost something fell: against a count of one event after the other."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overhead_reference import Reference
from random_traces import INSTANTS, traces
from rlscope_analysis.overhead import hits as overhead_hits
from rlscope_analysis.schema.vocabulary import PYTHON_RANGES
from rlscope_analysis.sweep import thread_plan
from rlscope_analysis.trace import open_trace
from trace_builder import RUNNABLE, TraceBuilder, lost, preempted, run, sleep, waker_of, woken


def counted(
    connection: duckdb.DuckDBPyConnection, start_ns: int | None = None, end_ns: int | None = None
) -> list[tuple[int, ...]]:
    columns = overhead_hits.count(connection, start_ns=start_ns, end_ns=end_ns)
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


def opened(builder: TraceBuilder) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    builder.fill(connection)
    return connection


@pytest.fixture
def tiny_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even the smallest process into as many intervals as it has rows."""
    monkeypatch.setattr(overhead_hits, "CHUNK_ROWS", 1)
    monkeypatch.setattr(thread_plan, "_THREAD_ROWS", 1)


@st.composite
def busy_traces(draw: st.DrawFn) -> TraceBuilder:
    """Draw a trace in which threads also wake each other, and give the GIL away."""
    builder = draw(traces())
    threads = len(builder._threads)
    for at, state in enumerate(builder._states):
        if threads and state[3] == RUNNABLE:
            waker = draw(st.integers(-3, threads + 1))
            builder._states[at] = (*state[:5], *waker_of(waker))
    for _ in range(draw(st.integers(0, 4)) if threads else 0):
        start_ns = draw(INSTANTS)
        builder.gil_release(draw(st.integers(1, threads)), start_ns, start_ns + 1)
    for at, operation in enumerate(builder._operations):
        source = draw(st.sampled_from(["nvtx", "auto", "record_function"]))
        *times, (name, domain, category, _, _), _ = operation
        builder._operations[at] = (*times, (name, domain, category, source, None), None)
    for at, call in enumerate(builder._calls):
        builder._calls[at] = (*call[:4], draw(st.sampled_from("fg")), *call[5:])
        builder.site(call[3], "g", is_expensive=True)
    return builder


@given(busy_traces())
@settings(max_examples=30, deadline=None)
def test_are_those_of_one_event_after_the_other(builder: TraceBuilder) -> None:
    with opened(builder) as connection:
        assert counted(connection) == Reference(connection).hits()


@given(busy_traces(), INSTANTS)
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.usefixtures("tiny_chunks")
def test_windows_that_follow_each_other_add_up_however_a_trace_is_cut(
    builder: TraceBuilder, cut_ns: int
) -> None:
    with opened(builder) as connection:
        reference = Reference(connection)
        assert counted(connection, None, cut_ns) == reference.hits(to_ns=cut_ns)
        assert counted(connection, cut_ns, None) == reference.hits(from_ns=cut_ns)
        assert counted(connection) == reference.hits()


def test_threads_that_no_axis_holds_together_are_counted_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = TraceBuilder(Path("unused"), with_views=False)
    threads = [
        builder.thread(builder.process(pid=pid), states=[run(10), sleep(5), run(5)])
        for pid in (1, 2)
    ]
    for thread in threads:
        builder.operation(thread, 2, 18, "a")
    monkeypatch.setattr("rlscope_analysis.overhead.place._LONGEST", 1)
    with opened(builder) as connection:
        assert counted(connection) == Reference(connection).hits() != []


def named(builder: TraceBuilder, tmp_path: Path) -> set[tuple[object, ...]]:
    builder.path = tmp_path / "trace.duckdb"
    with open_trace(builder.write()) as trace:
        query = "SELECT thread_id, operation, layer, gpu_busy, event, part, hits FROM probe_hits"
        return set(trace.sql(query).fetchall())


def test_calls_of_cuda_that_probes_recorded_are_paid_as_calls(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path)
    process = builder.process(pid=1, end_ns=100)
    thread = builder.thread(process, states=[run(100)])
    builder.native_call(thread, 5, 60, "backend", "f")
    builder.cuda_call(thread, 10, 30, name="cudaLaunchKernel")
    builder.cuda_call(thread, 12, 20, name="cuLaunchKernel")
    builder.site("cuda_api", "cudaLaunchKernel")
    builder.site("cuda_api", "cuLaunchKernel", is_expensive=True)
    # CUPTI told of these, which has costs of its own.
    builder.cuda_call(thread, 40, 50, name="cudaLaunchKernel", correlation_id=1)
    builder.cuda_call(thread, 70, 80, name="cudaMemcpy_v3020")
    found = {row[2:] for row in named(builder, tmp_path) if str(row[4]).startswith("call")}
    assert found == {
        (None, None, "call", "outside", 1),
        ("backend", None, "call", "inside", 1),
        ("backend", None, "call", "outside", 1),
        ("cuda_api", None, "call", "inside", 1),
        ("cuda_api", None, "call_expensive", "outside", 1),
        ("cuda_api", None, "call_expensive", "inside", 1),
    }


def test_each_event_is_paid_where_it_fell(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path)
    process = builder.process(pid=1, end_ns=100)
    first = builder.thread(process, states=[run(40), sleep(20), woken(5, by=2), run(35)])
    second = builder.thread(process, states=[run(65), preempted(5), lost(30)])
    builder.operation(first, 0, 100, "step", source="auto")
    builder.operation(first, 10, 30, "learn")
    builder.native_call(first, 12, 20, "backend", "f")
    builder.native_call(first, 13, 14, "simulator", "g")
    builder.site("simulator", "g", is_expensive=True)
    builder.sample(first, 13, "simulator")
    builder.sample(second, 90, "python")  # its states are lost there
    builder.gil_release(second, 5, 6)
    builder.native_call(second, 60, 61, "simulator", "f")
    assert named(builder, tmp_path) == {
        (first, "step", None, None, "switch", "outside", 2),
        (first, "(unannotated)", None, None, "range_auto", "outside", 1),
        (first, "step", None, None, "range_auto", "inside", 1),
        (first, "step", None, None, "range", "outside", 1),
        (first, "learn", None, None, "range", "inside", 1),
        (first, "learn", None, None, "call", "outside", 1),
        (first, "learn", "backend", None, "call", "inside", 1),
        (first, "learn", "backend", None, "call_expensive", "outside", 1),
        (first, "learn", "simulator", None, "call_expensive", "inside", 1),
        (first, "learn", "simulator", None, "sample", "outside", 1),
        (second, "(unannotated)", None, None, "switch", "outside", 1),
        # The wakeup of the first thread, while this one was in its call.
        (second, "(unannotated)", "simulator", None, "wakeup", "outside", 1),
        (second, "(unannotated)", None, None, "gil_release", "outside", 1),
        (second, "(unannotated)", None, None, "call", "outside", 1),
        (second, "(unannotated)", "simulator", None, "call", "inside", 1),
    }


def test_ranges_of_the_nvtx_package_are_told_apart(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path)
    builder.coverage("thread_state")
    for pid in (1, 2):
        process = builder.process(pid=pid, end_ns=10)
        thread = builder.thread(process, states=[run(10)])
        builder.operation(thread, 1, 2, "a")
        builder.operation(thread, 4, 5, "b", source="record_function")
    builder.coverage(PYTHON_RANGES, process_id=2)
    events = {(row[0], row[4]) for row in named(builder, tmp_path)}
    assert events == {(1, "switch"), (1, "range"), (2, "switch"), (2, "range_python")}


def test_an_empty_trace_has_none() -> None:
    with opened(TraceBuilder(Path("unused"), with_views=False)) as connection:
        assert counted(connection) == []
