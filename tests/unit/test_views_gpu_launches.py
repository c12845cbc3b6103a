"""Launches by operation: both attributions hold the same time, latencies are those of calls."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from kineto_builder import imported
from trace_builder import REPOSITORY, TraceBuilder, run

NOWHERE = Path("in-memory")
LENGTH = 20
spans = st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(sorted)
KINDS = ("kernel", "memcpy", "memset", "graph", "sync")


def rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    builder = TraceBuilder(NOWHERE)
    builder.coverage("gpu_activity")
    for process in range(1, 9):
        builder.process(pid=process)
        threads = [builder.thread(process, states=[run(LENGTH)]) for _ in range(2)]
        for thread in threads:
            edges = sorted(draw(st.sets(st.integers(0, LENGTH), max_size=5)))
            for start, end in pairwise(edges):
                if draw(st.booleans()):
                    builder.operation(thread, start, end, draw(st.sampled_from("ab")))
            if len(edges) > 1:
                builder.operation(thread, edges[0], edges[-1], "outer")
        for number in range(draw(st.integers(0, 4))):
            if draw(st.integers(0, 3)):
                builder.cuda_call(
                    draw(st.sampled_from(threads)), *draw(spans), correlation_id=number,
                    name=draw(st.sampled_from(["cudaLaunchKernel", "cudaGraphLaunch"])),
                )  # fmt: skip
            for _ in range(draw(st.integers(1, 3))):
                start, end = draw(spans)
                kind = draw(st.sampled_from(KINDS))
                builder.gpu_activity(process, start, end, kind=kind, correlation_id=number)
    return builder


def innermost(operations: list[tuple[Any, ...]], thread: int, at: int) -> str:
    """Return the operation that was opened last: the last one in the stored order."""
    open_ = [row[3] for row in operations if row[0] == thread and row[1] <= at < row[2]]
    return open_[-1] if open_ else "(unannotated)"


def expected(connection: duckdb.DuckDBPyConnection) -> dict[tuple[Any, ...], list[int]]:
    """Count activities and their instants, by the operations at both ends."""
    names = dict(rows(connection, "SELECT path_id, name FROM operation_path"))
    operations = [
        (*row, names[path])
        for *row, path in rows(
            connection, "SELECT thread_id, start_ns, end_ns, path_id FROM operation_coded"
        )
    ]
    reported: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * 6)
    for process, thread, kind, start, end, called in rows(
        connection,
        "SELECT process_id, thread_id, kind, start_ns, end_ns, call_start_ns FROM launch",
    ):
        if kind == "sync":
            continue
        operation = None if thread is None else innermost(operations, thread, called)
        is_kernel = kind == "kernel"
        row = reported[process, operation]
        for place, value in ((0, 1), (1, end - start)):
            row[place] += value
            row[place + 3] += value * is_kernel
        for at in range(start, end):
            operation = None if thread is None else innermost(operations, thread, at)
            reported[process, operation][2] += 1
            reported[process, operation][5] += is_kernel
    return dict(reported)


@settings(deadline=None, max_examples=3)
@given(traces())
def test_both_attributions_equal_a_count_of_instants(builder: TraceBuilder) -> None:
    with duckdb.connect() as connection:
        builder.fill(connection)
        found = rows(
            connection,
            "SELECT process_id, operation, activities, launched_ns, ran_ns, kernels,"
            " kernel_launched_ns, kernel_ran_ns FROM gpu_attribution",
        )
        assert {row[:2]: list(row[2:]) for row in found} == expected(connection)
        assert_same_total(connection)
        assert_latencies(connection)


def assert_same_total(connection: duckdb.DuckDBPyConnection) -> None:
    """Hold both columns to the sum of the activities."""
    summed = (
        "SELECT process_id, sum(activities), sum(launched_ns), sum(ran_ns) FROM gpu_attribution"
        " GROUP BY ALL ORDER BY ALL"
    )
    total = (
        "SELECT process_id, activities, sum_ns, sum_ns FROM gpu_time WHERE scope = 'process'"
        " ORDER BY ALL"
    )
    assert rows(connection, summed) == rows(connection, total)


def assert_latencies(connection: duckdb.DuckDBPyConnection) -> None:
    """Hold launch_latency to the first activity of each call."""
    firsts: dict[tuple[Any, ...], tuple[int, int]] = {}
    for *key, latency, queue in rows(
        connection,
        "SELECT process_id, operation, call_name, correlation_id, latency_ns, queue_ns FROM launch"
        " WHERE kind <> 'sync' AND call_name IS NOT NULL",
    ):
        firsts[tuple(key)] = min(firsts.get(tuple(key), (latency, queue)), (latency, queue))
    grouped = defaultdict(list)
    for first, times in firsts.items():
        grouped[first[:3]].append(times)
    found = rows(
        connection,
        "SELECT process_id, operation, call_name, calls, mean_latency_ns, p50_latency_ns,"
        " p99_latency_ns, max_latency_ns, p50_queue_ns, before_return_share, before_call"
        " FROM launch_latency",
    )
    assert {row[:3] for row in found} == set(grouped)
    for *key, calls, mean, p50, p99, longest, queue_p50, early, before in found:
        latencies = sorted(latency for latency, _ in grouped[tuple(key)])
        queues = sorted(queue for _, queue in grouped[tuple(key)])
        assert calls == len(latencies)
        assert math.isclose(mean, sum(latencies) / calls)
        assert (p50, p99, longest) == (
            latencies[math.ceil(calls * 0.5) - 1], latencies[math.ceil(calls * 0.99) - 1],
            latencies[-1],
        )  # fmt: skip
        assert queue_p50 == queues[math.ceil(calls * 0.5) - 1]
        assert math.isclose(early, sum(queue < 0 for queue in queues) / calls)
        assert before == sum(latency < 0 for latency in latencies)


def test_time_goes_to_what_was_open_while_it_ran() -> None:
    """A kernel that outlives its operation is cut there; two at once count twice."""
    builder = TraceBuilder(NOWHERE)
    thread = builder.thread(builder.process(pid=1), states=[run(100)])
    builder.operation(thread, 0, 20, "forward")
    builder.operation(thread, 20, 60, "wait")
    builder.cuda_call(thread, 5, 6, correlation_id=1)
    builder.cuda_call(thread, 8, 9, correlation_id=2)
    builder.gpu_activity(1, 10, 70, correlation_id=1)
    builder.gpu_activity(1, 15, 30, correlation_id=2, kind="memcpy")
    builder.gpu_activity(1, 80, 85)
    with duckdb.connect() as connection:
        builder.fill(connection)
        assert rows(
            connection,
            "SELECT operation, activities, launched_ns, ran_ns, kernels, kernel_launched_ns,"
            " kernel_ran_ns FROM gpu_attribution ORDER BY ran_ns DESC",
        ) == [
            ("wait", 0, 0, 40 + 10, 0, 0, 40),
            ("forward", 2, 75, 10 + 5, 1, 60, 10),
            ("(unannotated)", 0, 0, 10, 0, 0, 10),
            (None, 1, 5, 5, 1, 5, 5),
        ]


def test_a_graph_has_one_latency() -> None:
    builder = TraceBuilder(NOWHERE)
    thread = builder.thread(builder.process(pid=1), states=[run(100)])
    builder.cuda_call(thread, 10, 20, name="cudaGraphLaunch", correlation_id=1)
    for start in (25, 30, 40):
        builder.gpu_activity(1, start, start + 3, correlation_id=1, graph_id=7)
    with duckdb.connect() as connection:
        builder.fill(connection)
        assert rows(
            connection, "SELECT calls, mean_latency_ns, mean_queue_ns FROM launch_latency"
        ) == [(1, 15, 5)]


def test_a_real_trace_of_a_gpu_keeps_its_time(tmp_path: Path) -> None:
    """An A100 as the PyTorch profiler saw it: every view adds up to what it recorded."""
    path = tmp_path / "alexnet.json.gz"
    path.write_bytes((REPOSITORY / "tests/data/kineto/alexnet.json.gz").read_bytes())
    with imported(path, views=True) as connection:
        assert_same_total(connection)
        assert_latencies(connection)
        idle = rows(connection, "SELECT process_id, sum(time_ns)::BIGINT FROM gpu_idle GROUP BY 1")
        total = "SELECT process_id, idle_ns FROM gpu_time WHERE scope = 'process' AND idle_ns > 0"
        assert sorted(idle) == sorted(rows(connection, total))
        # Nobody read the utilization: its truth is there all the same, as tests/data/kineto says.
        assert rows(
            connection,
            "SELECT span_ns, utilization_share, busy_ns, sum_ns FROM gpu_utilization"
            " WHERE scope = 'work'",
        ) == [(12_920_244_000, None, 66_141_000, 66_203_000)]
