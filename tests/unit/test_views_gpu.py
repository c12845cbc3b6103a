"""Views about GPUs: busy time is a union, activities keep their launch, gaps have a cause."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from rlscope_analysis.reports import REPORTS
from trace_builder import TraceBuilder, run, sleep

NOWHERE = Path("in-memory")


def filled(builder: TraceBuilder) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    builder.fill(connection)
    return connection


def rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[object, ...]]:
    return connection.execute(query).fetchall()


def gpu_builder() -> TraceBuilder:
    builder = TraceBuilder(NOWHERE)
    builder.coverage("gpu_activity")
    builder.process(pid=1)
    return builder


def test_busy_is_a_union_over_streams_and_devices() -> None:
    builder = gpu_builder()
    builder.gpu_activity(1, 10, 30, stream_id=7)
    builder.gpu_activity(1, 20, 50, stream_id=8)
    builder.gpu_activity(1, 50, 60, device_id=1)  # touches: no gap between them
    builder.gpu_activity(1, 70, 70)  # takes no time
    builder.gpu_activity(1, 80, 90, kind="sync")  # the GPU does not work
    builder.gpu_activity(1, 100, 110, kind="memcpy")
    connection = filled(builder)
    busy = rows(connection, "SELECT start_ns, end_ns, activities FROM gpu_busy ORDER BY ALL")
    assert busy == [(10, 60, 3), (100, 110, 1)]
    reported = "SELECT activities, sum_ns, busy_ns, span_ns, idle_ns FROM gpu_time"
    assert rows(connection, f"{reported} WHERE scope = 'process'") == [(5, 70, 60, 100, 40)]
    assert rows(connection, f"{reported} WHERE scope = 'device' ORDER BY device_id") == [
        (4, 60, 50, 100, 50),
        (1, 10, 10, 10, 0),
    ]
    assert rows(connection, f"{reported} WHERE scope = 'kind' AND kind = 'kernel'") == [
        (4, 60, 50, 60, 10)
    ]


# A database with every view takes a while to make.
@settings(deadline=None, max_examples=10)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 2),
            st.integers(0, 1),
            st.integers(0, 2),
            st.integers(-20, 40),
            st.integers(0, 12),
            st.sampled_from(["kernel", "memcpy", "memset", "graph", "sync"]),
        ),
        max_size=20,
    )
)
def test_gpu_time_equals_a_count_of_instants(
    activities: list[tuple[int, int, int, int, int, str]],
) -> None:
    builder = gpu_builder()
    builder.process(pid=2)
    busy: dict[tuple[object, ...], set[int]] = defaultdict(set)
    total: dict[tuple[object, ...], int] = defaultdict(int)
    for process, device, stream, start, length, kind in activities:
        builder.gpu_activity(
            process, start, start + length, device_id=device, stream_id=stream, kind=kind
        )
        if kind == "sync":
            continue
        for key in (
            ("trace", None, None, None, None),
            ("machine", None, None, None, None),
            ("process", process, None, None, None),
            ("device", None, device, None, None),
            ("stream", process, device, stream, None),
            ("kind", None, None, None, kind),
        ):
            busy[key].update(range(start, start + length))
            total[key] += length
    connection = filled(builder)
    found = rows(
        connection,
        "SELECT scope, process_id, device_id, stream_id, kind, sum_ns, busy_ns FROM gpu_time",
    )
    assert {row[:5]: row[5:] for row in found} == {
        key: (total[key], len(busy[key])) for key in total
    }
    merged = rows(connection, "SELECT process_id, sum(end_ns - start_ns) FROM gpu_busy GROUP BY 1")
    assert dict(merged) == {  # type: ignore[comparison-overlap]
        key[1]: len(instants) for key, instants in busy.items() if key[0] == "process" and instants
    }
    ((of_machine, intervals, apart),) = rows(
        connection,
        "SELECT sum(end_ns - start_ns)::BIGINT, count(*), count(DISTINCT host)"
        " FROM gpu_busy_machine",
    )
    instants = busy["machine", None, None, None, None]
    assert (of_machine or 0) == len(instants)
    assert intervals == sum(at - 1 not in instants for at in instants)
    assert apart == bool(instants)


def launching() -> TraceBuilder:
    """Return a thread whose iteration [0, 1000) holds forward [100, 400): it launches kernels."""
    builder = gpu_builder()
    builder.coverage("thread_state")
    thread = builder.thread(1, tid=1, states=[run(500), sleep(300), run(200)])
    builder.operation(thread, 0, 1000, "iteration")
    builder.operation(thread, 100, 400, "forward")
    builder.operation(thread, 400, 700, "wait")
    builder.cuda_call(thread, 110, 120, correlation_id=1)
    builder.cuda_call(thread, 130, 140, correlation_id=2)
    builder.cuda_call(thread, 800, 810, correlation_id=3)
    builder.gpu_activity(1, 115, 200, name="gemm", correlation_id=1)
    builder.gpu_activity(1, 420, 500, name="relu", correlation_id=2)
    builder.gpu_activity(1, 850, 900, name="copy", kind="memcpy", correlation_id=3)
    builder.gpu_activity(1, 950, 960, name="orphan", correlation_id=99)
    return builder


def test_launch_shows_both_attributions() -> None:
    found = rows(
        filled(launching()),
        "SELECT name, call_name, latency_ns, queue_ns, operation, running_operation"
        " FROM launch ORDER BY start_ns",
    )
    assert found == [
        ("gemm", "cudaLaunchKernel", 5, -5, "forward", "forward"),
        ("relu", "cudaLaunchKernel", 290, 280, "forward", "wait"),
        ("copy", "cudaLaunchKernel", 50, 40, "iteration", "iteration"),
        ("orphan", None, None, None, None, None),
    ]


def test_a_sample_in_a_call_tells_who_made_it() -> None:
    builder = launching()
    # The driver's call lies within the runtime's: a sample behind it is in the outer one still.
    builder.cuda_call(1, 112, 114, name="cuLaunchKernel", correlation_id=1)
    builder.sample(1, 117, "backend", frames=("main", "train", "forward"))
    builder.sample(1, 118, "backend", frames=("main", "train", "later"))
    builder.sample(1, 120, "python", frames=("main", "after"))
    builder.sample(1, 135, "backend")
    builder.sample(1, 805, "backend", frames=("main", "copy_back"))
    connection = filled(builder)
    found = rows(
        connection,
        "SELECT l.name, s.leaf FROM launch AS l LEFT JOIN stack AS s USING (stack_id)"
        " ORDER BY l.start_ns",
    )
    # Where none was found, or the call is not in the trace, nobody is named.
    assert found == [("gemm", "forward"), ("relu", None), ("copy", "copy_back"), ("orphan", None)]
    report = rows(connection, REPORTS["launch-functions"].sql)
    assert report == [
        ("forward", "forward", "cudaLaunchKernel", 2, 2 / 3, 1, 1),
        ("iteration", "copy_back", "cudaLaunchKernel", 1, 1 / 3, 1, 1),
    ]


def test_every_activity_is_a_launch_and_correlations_stay_in_their_process() -> None:
    builder = launching()
    other = builder.process(pid=2)
    thread = builder.thread(other, tid=2, states=[run(1000)])
    builder.cuda_call(thread, 5, 6, correlation_id=1)
    builder.gpu_activity(other, 300, 310, name="theirs", correlation_id=1)
    found = rows(filled(builder), "SELECT name, call_start_ns FROM launch ORDER BY start_ns")
    assert [row for row in found if row[0] in ("gemm", "theirs")] == [("gemm", 110), ("theirs", 5)]
    assert len(found) == 5


def test_an_activity_is_there_once_whatever_shares_its_correlation_id() -> None:
    """The driver call inside a runtime call may carry the same id: the outermost call counts."""
    builder = gpu_builder()
    thread = builder.thread(1, tid=1, states=[run(1000)])
    builder.cuda_call(thread, 20, 40, name="cuLaunchKernel", correlation_id=1)
    builder.cuda_call(thread, 10, 50, name="cudaLaunchKernel", correlation_id=1)
    builder.cuda_call(thread, 10, 30, name="cuCtxGetCurrent", correlation_id=1)
    builder.gpu_activity(1, 60, 70, name="gemm", correlation_id=1)
    builder.gpu_activity(1, 70, 75, name="relu", correlation_id=1)
    builder.gpu_activity(1, 90, 95, name="nobody's")
    connection = filled(builder)
    assert rows(
        connection, "SELECT name, call_name, latency_ns, queue_ns FROM launch ORDER BY start_ns"
    ) == [
        ("gemm", "cudaLaunchKernel", 50, 10),
        ("relu", "cudaLaunchKernel", 60, 20),
        ("nobody's", None, None, None),
    ]
    assert rows(connection, "SELECT start_ns, end_ns, cause FROM idle_gap") == [(75, 90, None)]


def test_gaps_tell_whether_the_cpu_was_late() -> None:
    found = rows(
        filled(launching()),
        "SELECT start_ns, end_ns, duration_ns, cause, unlaunched_ns, operation, state, next_name,"
        " next_operation FROM idle_gap ORDER BY start_ns",
    )
    assert found == [
        (200, 420, 220, "launched", 0, "forward", "running", "relu", "forward"),
        (500, 850, 350, "not launched", 300, "wait", "sleeping", "copy", "iteration"),
        (900, 950, 50, None, None, None, None, "orphan", None),
    ]


def test_busy_and_gaps_make_up_the_span() -> None:
    connection = filled(launching())
    ((busy_ns,),) = rows(connection, "SELECT sum(end_ns - start_ns)::BIGINT FROM gpu_busy")
    ((gap_ns,),) = rows(connection, "SELECT sum(duration_ns)::BIGINT FROM idle_gap")
    assert rows(
        connection, "SELECT span_ns, busy_ns, idle_ns FROM gpu_time WHERE scope = 'process'"
    ) == [(960 - 115, busy_ns, gap_ns)]


def test_kernels_of_one_name_are_one_row() -> None:
    builder = gpu_builder()
    for start, end in ((0, 10), (20, 50), (60, 61)):
        builder.gpu_activity(1, start, end, name="gemm")
    builder.gpu_activity(1, 100, 200, name="gemm", kind="memset")
    assert rows(
        filled(builder), "SELECT name, instances, sum_ns, p50_ns, max_ns FROM gpu_kernel"
    ) == [("gemm", 3, 41, 10, 30)]


def test_the_innermost_operation_changes_where_operations_meet() -> None:
    builder = TraceBuilder(NOWHERE)
    thread = builder.thread(builder.process(pid=1), states=[run(100)])
    for start, end, name in (
        (10, 50, "a"), (10, 30, "b"), (20, 30, "c"), (30, 40, "d"), (40, 40, "empty"), (50, 60, "e")
    ):  # fmt: skip
        builder.operation(thread, start, end, name)
    found = rows(
        filled(builder),
        "SELECT ts_ns, coalesce(name, '-') FROM _operation_change AS c"
        " LEFT JOIN operation_path AS p ON p.path_id = c.path_id ORDER BY ts_ns",
    )
    assert found == [
        (10, "b"), (20, "c"), (30, "d"), (40, "a"), (50, "e"), (60, "-"),
    ]  # fmt: skip


def test_the_timeline_holds_every_slice_once() -> None:
    builder = launching()
    builder.native_call(1, 105, 300, "backend", "aten::mm")
    builder.wait(1, 500, 800, "pipe")
    builder.async_range(1, 0, 5, "epoch")
    connection = filled(builder)
    counts = dict(rows(connection, "SELECT track, count(*) FROM timeline GROUP BY track"))  # type: ignore[arg-type]
    assert counts == {
        "thread_state": 3, "operation": 3, "cuda_call": 3, "gpu_activity": 4, "native_call": 1,
        "wait": 1, "async_range": 1,
    }  # fmt: skip
    assert rows(
        connection,
        "SELECT process_id, thread_id, name, category, depth FROM timeline"
        " WHERE track IN ('native_call', 'operation', 'wait') AND start_ns >= 100"
        " ORDER BY start_ns",
    ) == [
        (1, 1, "forward", None, 1),
        (1, 1, "aten::mm", "backend", 0),
        (1, 1, "wait", None, 1),
        (1, 1, "pipe", None, None),
    ]
