"""Causal edges, kind by kind: who let whom go on, and when."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

import kineto_builder
import nsys_builder
import rlscope_analysis
from flow_checks import check_edges
from rlscope_analysis.views import install_views, view_sql
from trace_builder import (
    DEVICE,
    INTERRUPT,
    OUTSIDE,
    REPOSITORY,
    TIMER,
    UNKNOWN,
    TraceBuilder,
    blocked,
    preempted,
    run,
    sleep,
    woken,
)

DATA = REPOSITORY / "tests" / "data"
# What flow is made of, and what it is held to: all views would take a second each time.
TOPICS = ("state_step", "gil_wait", "launch", "waits_on_peer", "collective", "flow")


@pytest.fixture
def builder() -> TraceBuilder:
    return TraceBuilder(Path("unused"), with_views=False)


def rows(builder: TraceBuilder, columns: str, where: str = "TRUE") -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        builder.fill(connection)
        for topic in TOPICS:
            connection.execute(view_sql(topic))
        check_edges(connection)
        return connection.execute(
            f"SELECT {columns} FROM flow WHERE {where} ORDER BY to_ns, from_ns"
        ).fetchall()


WAKEUP = "kind, from_kind, from_thread_id, from_ns, to_thread_id, to_ns, wait"


def test_a_wakeup_leads_from_the_waker_to_the_woken(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    waker = builder.thread(process, states=[run(30)])
    states = [run(5), sleep(10), woken(2, by=waker), run(3), preempted(2)]
    thread = builder.thread(process, states=states)
    builder.wait(thread, 5, 15, "lock")
    assert rows(builder, WAKEUP) == [("wakeup", "thread", waker, 15, thread, 15, "lock")]


@pytest.mark.parametrize(
    ("by", "kind"),
    [
        (INTERRUPT, "interrupt"),
        (OUTSIDE, "outside"),
        (UNKNOWN, "unknown"),
        (TIMER, "timer"),
        (DEVICE, "device"),
    ],
)
def test_a_wakeup_by_no_traced_thread_has_no_start(
    builder: TraceBuilder, by: int, kind: str
) -> None:
    thread = builder.thread(builder.process(pid=1), states=[run(1), sleep(4), woken(1, by=by)])
    builder.wait(thread, 1, 5, "pipe")
    assert rows(builder, WAKEUP) == [("wakeup", kind, None, 5, thread, 5, "pipe")]
    assert rows(builder, "from_process_id, to_process_id") == [(None, 1)]


@pytest.mark.parametrize("by", [1, 3])
def test_a_waker_that_did_not_live_is_unknown(builder: TraceBuilder, by: int) -> None:
    """Thread 1 ended before, and thread 3 is not in the trace."""
    process = builder.process(pid=1)
    builder.thread(process, states=[run(4)])
    thread = builder.thread(process, states=[run(1), sleep(4), woken(1, by=by)])
    assert rows(builder, WAKEUP) == [("wakeup", "unknown", None, 5, thread, 5, None)]


def test_the_first_wakeup_of_a_thread_is_its_creation(builder: TraceBuilder) -> None:
    parent = builder.process(pid=1)
    creator = builder.thread(parent, states=[run(30)])
    thread = builder.thread(parent, states=[woken(2, by=creator), run(3)], start_ns=4)
    child = builder.process(pid=2, parent=parent)
    main = builder.thread(child, states=[woken(2, by=creator), run(3)], start_ns=9)
    columns = "kind, from_thread_id, from_ns, to_thread_id, to_ns, from_process_id, to_process_id"
    assert rows(builder, columns) == [
        ("fork", creator, 4, thread, 4, parent, parent),
        ("fork", creator, 9, main, 9, parent, child),
    ]


def test_the_end_of_a_child_ends_the_wait_for_it(builder: TraceBuilder) -> None:
    """A wait for vfork is blocked, and ends when the child runs another program."""
    parent, other = builder.process(pid=1), builder.process(pid=2)
    child = builder.process(pid=3, parent=parent)
    child_thread = builder.thread(child, states=[run(30)])
    stranger = builder.thread(other, states=[run(40)])
    waits = [blocked(5), sleep(5), sleep(5)]
    wakers = [child_thread, child_thread, stranger]
    states = [run(1)]
    for wait, waker in zip(waits, wakers, strict=True):
        states += [wait, woken(1, by=waker), run(1)]
    thread = builder.thread(parent, states=states)
    for start in (1, 8, 15):
        builder.wait(thread, start, start + 5, "process")
    assert rows(builder, "kind, from_thread_id, to_ns, wait") == [
        ("wakeup", child_thread, 6, "process"),
        ("exit", child_thread, 13, "process"),
        ("wakeup", stranger, 20, "process"),
    ]


@pytest.mark.parametrize("wait", ["pipe", "socket"])
def test_a_message_comes_from_whoever_ended_the_wait(builder: TraceBuilder, wait: str) -> None:
    sender = builder.thread(builder.process(pid=1), states=[run(30)])
    thread = builder.thread(
        builder.process(pid=2), states=[run(1), sleep(4), woken(1, by=sender), run(1)]
    )
    builder.wait(thread, 1, 5, wait)
    assert rows(builder, WAKEUP) == [("message", "thread", sender, 5, thread, 5, wait)]


def test_the_gil_is_handed_over_within_a_process(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    holder = builder.thread(process, states=[run(30)])
    stranger = builder.thread(builder.process(pid=2), states=[run(30)])
    states = [run(1), sleep(4), woken(1, by=holder), run(1), sleep(4), woken(1, by=stranger)]
    thread = builder.thread(process, states=states)
    for start in (1, 7):
        builder.wait(thread, start, start + 4, "gil")
    assert rows(builder, "kind, from_thread_id, to_ns") == [
        ("gil", holder, 5), ("wakeup", stranger, 11)
    ]  # fmt: skip


@pytest.fixture
def gpu(builder: TraceBuilder) -> TraceBuilder:
    """Return a process whose thread 1 lives for 100 ns."""
    builder.coverage("gpu_activity")
    builder.thread(builder.process(pid=1), states=[run(100)])
    return builder


LAUNCH = "from_thread_id, from_ns, to_process_id, to_device_id, to_stream_id, to_ns, correlation_id"


def test_a_launch_leads_from_the_call_to_the_activity(gpu: TraceBuilder) -> None:
    gpu.cuda_call(1, 10, 20, correlation_id=5)
    gpu.cuda_call(1, 12, 18, name="cuLaunchKernel", correlation_id=5)
    gpu.gpu_activity(1, 30, 40, correlation_id=5)
    # The GPU began before the call returned.
    gpu.cuda_call(1, 50, 60, correlation_id=6)
    gpu.gpu_activity(1, 55, 70, correlation_id=6, stream_id=9)
    # No call, and what only waits.
    gpu.gpu_activity(1, 80, 90, correlation_id=7, stream_id=1)
    gpu.gpu_activity(1, 51, 52, correlation_id=6, kind="sync", stream_id=2)
    assert rows(gpu, LAUNCH, "kind = 'launch'") == [
        (1, 20, 1, 0, 7, 30, 5), (1, 55, 1, 0, 9, 55, 6)
    ]  # fmt: skip


def test_each_activity_of_a_graph_is_launched_by_its_call(gpu: TraceBuilder) -> None:
    gpu.cuda_call(1, 10, 20, kind="graph", name="cudaGraphLaunch", correlation_id=5)
    for start in (30, 40, 50):
        gpu.gpu_activity(1, start, start + 5, correlation_id=5, graph_id=1)
    found = rows(gpu, "kind, from_ns, to_ns")
    assert [row[1:] for row in found if row[0] == "launch"] == [(20, 30), (20, 40), (20, 50)]
    assert [row[1:] for row in found if row[0] == "stream"] == [(35, 40), (45, 50)]


def test_the_order_of_a_stream_is_that_of_what_had_ended(gpu: TraceBuilder) -> None:
    for start, end, stream in ((10, 40, 7), (20, 30, 7), (35, 38, 7), (40, 45, 7), (46, 47, 8)):
        gpu.gpu_activity(1, start, end, stream_id=stream, correlation_id=start)
    gpu.gpu_activity(1, 50, 55, stream_id=8, device_id=1)
    gpu.gpu_activity(1, 60, 61, stream_id=None)
    gpu.gpu_activity(1, 62, 63, stream_id=None)
    columns = "from_ns, to_ns, from_stream_id, to_stream_id, correlation_id"
    assert rows(gpu, columns, "kind = 'stream'") == [(40, 40, 7, 7, 40)]


SYNC = "from_device_id, from_stream_id, from_ns, to_thread_id, to_ns, correlation_id, is_assumed"


def test_a_wait_for_a_stream_ends_by_its_last_activity(gpu: TraceBuilder) -> None:
    gpu.gpu_activity(1, 10, 40, stream_id=7, correlation_id=1)
    gpu.gpu_activity(1, 10, 42, stream_id=8, correlation_id=2)
    gpu.cuda_call(1, 30, 45, kind="sync", name="cudaStreamSynchronize", correlation_id=3)
    gpu.cuda_call(1, 31, 44, kind="sync", name="cuStreamSynchronize", correlation_id=4)
    gpu.gpu_activity(1, 30, 45, kind="sync", stream_id=7, correlation_id=3)
    assert rows(gpu, SYNC, "kind = 'sync'") == [(0, 7, 40, 1, 45, 1, False)]


@pytest.mark.parametrize(
    ("name", "devices", "is_assumed"),
    [
        ("cudaDeviceSynchronize", 1, False), ("cuCtxSynchronize", 1, False),
        ("cudaDeviceSynchronize", 2, True), ("cudaStreamSynchronize", 1, True),
        ("cudaEventSynchronize", 1, True),
    ],
)  # fmt: skip
def test_without_a_stream_the_last_of_the_process_is_taken(
    gpu: TraceBuilder, name: str, devices: int, is_assumed: bool
) -> None:
    gpu.gpu_activity(1, 10, 40, stream_id=7, correlation_id=1, device_id=devices - 1)
    gpu.gpu_activity(1, 10, 42, stream_id=8, correlation_id=2)
    gpu.cuda_call(1, 30, 45, kind="sync", name=name, correlation_id=3)
    assert rows(gpu, SYNC, "kind = 'sync'") == [(0, 8, 42, 1, 45, 2, is_assumed)]


def test_a_call_that_need_not_wait_has_no_edge(gpu: TraceBuilder) -> None:
    gpu.gpu_activity(1, 10, 30, correlation_id=1)
    gpu.cuda_call(1, 30, 45, kind="sync", name="cudaDeviceSynchronize", correlation_id=3)
    assert rows(gpu, SYNC, "kind = 'sync'") == []


@pytest.mark.parametrize(
    ("name", "end_ns", "found"),
    [
        ("cudaMemcpy", 50, [(0, 7, 40, 1, 50, 1, False)]),
        # To or from memory that is not pinned.
        ("cudaMemcpyAsync", 50, [(0, 7, 40, 1, 50, 1, False)]),
        ("cudaMemcpyAsync", 39, []),
        ("cudaMemcpy", 39, []),
    ],
)
def test_a_copy_is_awaited_by_a_call_that_returns_after_it(
    gpu: TraceBuilder, name: str, end_ns: int, found: list[tuple[Any, ...]]
) -> None:
    gpu.gpu_activity(1, 30, 40, kind="memcpy", correlation_id=1)
    gpu.cuda_call(1, 20, end_ns, kind="memcpy", name=name, correlation_id=1)
    assert rows(gpu, SYNC, "kind = 'sync'") == found


def test_a_window_has_the_edges_within_it(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    for kind in ("thread_state", "gpu_activity"):
        builder.coverage(kind)
    process = builder.process(pid=1)
    waker = builder.thread(process, states=[run(100)])
    nap = [sleep(8), woken(2, by=waker)]
    builder.thread(process, states=nap * 10)
    for start in (5, 25, 45, 65, 85):
        builder.cuda_call(waker, start, start + 4, correlation_id=start)
        builder.gpu_activity(process, start + 8, start + 10, correlation_id=start)
    path = builder.write()
    inside = "SELECT * FROM flow WHERE from_ns >= 20 AND to_ns < 80 ORDER BY ALL"
    with rlscope_analysis.open(path) as trace:
        expected = trace.sql(inside).fetchall()
    with rlscope_analysis.open(path, start="20ns", end="80ns") as trace:
        assert trace.sql("SELECT * FROM flow ORDER BY ALL").fetchall() == expected
    assert [row[0] for row in expected].count("launch") == 3
    assert [row[0] for row in expected].count("wakeup") == 6


def test_the_queries_of_the_docs_run(gpu: TraceBuilder) -> None:
    text = (REPOSITORY / "docs" / "flow.md").read_text(encoding="utf-8")
    queries = re.findall(r"^    SELECT .*?;$", text, re.MULTILINE | re.DOTALL)
    assert len(queries) == 2
    gpu.cuda_call(1, 10, 20, correlation_id=5)
    gpu.gpu_activity(1, 30, 40, correlation_id=5)
    with duckdb.connect() as connection:
        gpu.fill(connection)
        for topic in TOPICS:
            connection.execute(view_sql(topic))
        assert [connection.execute(query).fetchall() for query in queries] == [[], [("launch", 1)]]


def test_edges_of_an_imported_profile(tmp_path: Path) -> None:
    shutil.copy(DATA / "kineto" / "alexnet.json.gz", tmp_path)
    with kineto_builder.imported(tmp_path / "alexnet.json.gz", views=True) as connection:
        check_edges(connection)
        found = dict(connection.execute("SELECT kind, count(*) FROM flow GROUP BY kind").fetchall())
        ((launched,),) = connection.execute(
            "SELECT count(*) FROM gpu_activity AS a WHERE kind <> 'sync' AND EXISTS"
            " (FROM cuda_call AS c WHERE c.correlation_id = a.correlation_id)"
        ).fetchall()
    assert found.pop("launch") == launched > 0
    assert found.keys() == {"stream", "event", "sync"}


def test_a_stream_goes_on_where_an_event_of_another_was_due(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    thread = builder.thread(process, states=[run(100)])
    # What the event stands for, then something that the waiting stream does not wait for.
    for call_ns, correlation, stream, begins, ends in ((1, 1, 7, 5, 30), (6, 4, 7, 30, 60)):
        builder.cuda_call(thread, call_ns, call_ns + 1, correlation_id=correlation)
        builder.gpu_activity(process, begins, ends, stream_id=stream, correlation_id=correlation)
    builder.cuda_call(thread, 3, 4, kind="other", name="cudaEventRecord", correlation_id=2)
    builder.cuda_call(thread, 8, 9, kind="other", name="cudaStreamWaitEvent", correlation_id=5)
    builder.cuda_call(thread, 10, 11, correlation_id=6)
    builder.gpu_activity(process, 33, 50, stream_id=20, correlation_id=6)
    builder.cuda_call(thread, 40, 70, kind="sync", name="cudaEventSynchronize", correlation_id=8)
    builder.event_wait(process, 5, stream_id=20, event_stream_id=7, event_correlation_id=2)
    # The thread waits for the event that was recorded after both.
    builder.cuda_call(thread, 15, 16, kind="other", name="cudaEventRecord", correlation_id=7)
    builder.event_wait(process, 8, stream_id=None, event_stream_id=7, event_correlation_id=7)
    found = rows(
        builder,
        "kind, from_stream_id, from_ns, to_thread_id, to_stream_id, to_ns, is_assumed",
        "kind IN ('event', 'sync')",
    )
    assert found == [
        ("event", 7, 30, None, 20, 33, False), ("sync", 7, 60, thread, None, 70, False)
    ]  # fmt: skip


def test_who_begins_a_collective_last_lets_all_others_end(builder: TraceBuilder) -> None:
    processes = [builder.process(pid=pid) for pid in (1, 2, 3)]
    for process, start, end in zip(processes, (10, 40, 20), (50, 55, 51), strict=True):
        builder.gpu_activity(process, start, end, correlation_id=process)
        builder.collective(1, process, start, end, correlation_id=process)
    columns = "from_process_id, from_kind, from_ns, to_process_id, to_thread_id, to_ns"
    assert rows(builder, f"{columns}, correlation_id", "kind = 'collective'") == [
        (2, "gpu", 40, 1, None, 50, 1), (2, "gpu", 40, 3, None, 51, 3)
    ]  # fmt: skip


def test_a_row_that_is_there_twice_makes_no_edge_more(builder: TraceBuilder) -> None:
    for process in (builder.process(pid=1), builder.process(pid=2)):
        builder.gpu_activity(process, 10 * process, 30)
        for _ in range(2):
            builder.collective(1, process, 10 * process, 30)
    assert rows(builder, "from_process_id, to_process_id") == [(2, 1)]


@pytest.mark.parametrize(
    ("start", "end", "found"), [("0ns", "80ns", 1), ("45ns", "80ns", 0), ("0ns", "45ns", 0)]
)
def test_a_window_has_collectives_that_begin_and_end_in_it(
    tmp_path: Path, start: str, end: str, found: int
) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    builder.coverage("gpu_activity")
    for process in (builder.process(pid=1, end_ns=100), builder.process(pid=2, end_ns=100)):
        # The last to begin does so at 40, the other ends at 60.
        builder.gpu_activity(process, 20 * process, 60)
        builder.collective(1, process, 20 * process, 60)
    with rlscope_analysis.open(builder.write(), start=start, end=end) as trace:
        edges = trace.sql("SELECT from_ns, to_ns FROM flow WHERE kind = 'collective'").fetchall()
        shown = trace.sql("SELECT start_ns, end_ns, duration_ns FROM gpu_collective").fetchall()
        busy = trace.sql("SELECT start_ns, end_ns, duration_ns FROM gpu_activity").fetchall()
    assert edges == [(40, 60)] * found
    assert sorted(shown) == sorted(busy)


def test_edges_of_an_imported_export(tmp_path: Path) -> None:
    shutil.copy(DATA / "nsys" / "mock.sqlite", tmp_path)
    trace = nsys_builder.imported(tmp_path / "mock.sqlite").report.output
    with duckdb.connect(str(trace)) as connection:
        install_views(connection)
        check_edges(connection)
        kinds = connection.execute("SELECT kind, is_assumed, count(*) FROM flow GROUP BY ALL")
        assert sorted(kinds.fetchall()) == [
            ("launch", False, 3), ("stream", False, 2), ("sync", False, 1)
        ]  # fmt: skip
