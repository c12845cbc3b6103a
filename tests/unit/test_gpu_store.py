"""Records of the GPU become rows: whose they are, and named as imports name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_spool import (
    ACTIVITIES,
    BEGIN,
    CALLS,
    EPOCH,
    FINISH,
    cupti_thread,
    kernel_half,
    losses,
    rows,
    saved,
)
from shim_builder import DRIVER, GRAPH, MEMCPY, MEMSET, SYNC, ShimBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shim() -> ShimBuilder:
    return cupti_thread()


def test_calls_belong_to_the_thread_that_called(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status()
    # In the order in which CUPTI gives them: what ends first comes first.
    shim.call(11, 300, 310, "cudaMemcpyAsync_v3020", correlation=2)
    shim.call(10, 205, 215, "cuLaunchKernel", api=DRIVER, correlation=1)
    shim.call(10, 200, 220, "cudaLaunchKernel_v7000", correlation=1)
    shim.call(10, 400, 410, "", function=77)
    path, report = saved(kernel_half(tmp_path / "spool", tids=(10, 11)), shim)
    assert rows(path, CALLS) == [
        (1, 200, 220, "launch", "cudaLaunchKernel_v7000", 1),
        (1, 205, 215, "launch", "cuLaunchKernel", 1),
        (1, 400, 410, "other", "runtime function 77", None),
        (2, 300, 310, "memcpy", "cudaMemcpyAsync_v3020", 2),
    ]
    assert report.rows["cuda_call_coded"] == 4
    # None of them has its work in the trace; the last one asked for none.
    lost = "cuda_call_without_gpu"
    assert losses(path) == {lost: ("unmatched", 3)}


def test_activities_are_named_as_imports_name_them(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status()
    for number in range(1, 7):
        shim.call(10, 100 + number, 110, correlation=number)
    shim.activity(500, 600, "_ZN2at6native4gemmEi", correlation=1, stream=7, context=1)
    shim.activity(300, 310, work=MEMCPY, detail=1, size=4096, correlation=2)
    shim.activity(320, 330, work=MEMCPY, detail=77, size=2**64 - 1, correlation=3)
    shim.activity(340, 350, work=MEMSET, size=8, correlation=4)
    shim.activity(360, 370, work=GRAPH, graph=9, correlation=5)
    shim.activity(380, 390, work=SYNC, detail=3, device=2**32 - 1, stream=2**32 - 1)
    shim.activity(400, 410, "relu", correlation=6, graph=9, device=1)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, ACTIVITIES) == [
        (300, 310, "memcpy", "Memcpy HtoD", 2),
        (320, 330, "memcpy", "Memcpy (77)", 3),
        (340, 350, "memset", "Memset", 4),
        (360, 370, "graph", "CUDA graph 9", 5),
        (380, 390, "sync", "Stream sync", None),
        (400, 410, "kernel", "relu", 6),
        (500, 600, "kernel", "at::native::gemm(int)", 1),
    ]
    places = "SELECT device_id, context_id, stream_id, graph_id, bytes FROM gpu_activity_coded"
    assert rows(path, places) == [
        (0, 0, 0, None, 4096),
        (0, 0, 0, None, 2**63 - 1),
        (0, 0, 0, None, 8),
        (0, 0, 0, 9, None),
        (None, 0, None, None, None),
        (1, 0, 0, 9, None),
        (0, 1, 7, None, None),
    ]
    assert losses(path) == {}


def test_a_copy_between_gpus_has_both(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status()
    shim.device(0, "left", uuid=bytes([1] * 16))
    shim.device(1, "right", uuid=bytes([2] * 16))
    shim.call(10, 200, 210, "cudaMemcpyPeerAsync", correlation=1)
    for number, (detail, peer) in enumerate([(10, 1), (10, 2**32 - 1), (1, 1)]):
        shim.activity(
            300 + number, 310, work=MEMCPY, detail=detail, peer=peer, size=8, correlation=1
        )
    shim.activity(400, 410, "gemm", correlation=1)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    columns = "SELECT name, device_id, peer_device_id FROM gpu_activity ORDER BY start_ns"
    assert rows(path, columns) == [
        ("Memcpy PtoP", 0, 1),
        ("Memcpy PtoP", 0, None),
        ("Memcpy HtoD", 0, None),
        ("gemm", 0, None),
    ]


def test_threads_of_another_namespace(tmp_path: Path) -> None:
    shim = ShimBuilder()
    shim.source(pid=10, inner_pid=1)
    shim.thread(tid=5, ts_ns=BEGIN)
    shim.flush()
    for inner, tid in ((2, 10), (3, 11)):
        shim.block(5, inner.to_bytes(4, "little") + tid.to_bytes(4, "little"))
    shim.status()
    shim.call(2, 200, 210)
    shim.call(3, 220, 230)
    shim.call(4, 240, 250)
    shim.flush()
    shim.block(5, (3).to_bytes(4, "little") + (10).to_bytes(4, "little"))
    shim.call(3, 260, 270)
    path, _ = saved(kernel_half(tmp_path / "spool", tids=(10, 11)), shim)
    assert [row[:3] for row in rows(path, CALLS)] == [(1, 200, 210), (1, 260, 270), (2, 220, 230)]
    assert losses(path) == {"cuda_call_without_thread": ("unmatched", 1)}


def test_all_views_work_on_a_recorded_trace(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status()
    shim.device(0, "NVIDIA H200")
    shim.call(10, 300, 320, "cudaLaunchKernel", correlation=1)
    shim.call(10, 305, 315, "cuLaunchKernel", api=DRIVER, correlation=1)
    shim.call(10, 900, 2100, "cudaStreamSynchronize", correlation=2)
    shim.activity(400, 2000, "gemm", correlation=1, stream=7, context=1)
    shim.flush()
    shim.slot = 1
    shim.thread(tid=10, ts_ns=BEGIN)
    shim.range("train", 200, 3000)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim, views=True)
    launched = "SELECT call_name, latency_ns, queue_ns, operation, name FROM launch"
    assert rows(path, launched) == [("cudaLaunchKernel", 100, 80, "train", "gemm")]
    # Off the CPU from 1000 to 2000, within the call that waits.
    waits = "SELECT sum(time_ns) FROM breakdown WHERE bucket = 'gpu_wait'"
    assert rows(path, waits) == [(1000,)]
    lifetime = rows(path, "SELECT sum(time_ns), count(*) FILTER (gpu_busy IS NULL) FROM breakdown")
    assert lifetime == [(FINISH - BEGIN, 0)]
    busy = "SELECT sum(time_ns) FROM breakdown WHERE gpu_busy"
    assert rows(path, busy) == rows(path, "SELECT busy_ns FROM gpu_time WHERE scope = 'trace'")
    assert rows(path, "SELECT end_ns - start_ns FROM gpu_busy") == [(1600,)]


times = st.integers(BEGIN, FINISH - 200)


@settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from([10, 11]), times, st.integers(0, 100),
            st.sampled_from(["cudaLaunchKernel", "cuMemcpyHtoD_v2"]), st.integers(1, 9),
        ),
        max_size=12,
    ),
    activities=st.lists(
        st.tuples(times, st.integers(1, 100), st.sampled_from(["gemm", "relu"]), st.integers(1, 9)),
        max_size=12,
    ),
    is_foreign=st.booleans(),
)  # fmt: skip
def test_every_record_is_a_row(
    tmp_path: Path,
    calls: list[tuple[int, int, int, str, int]],
    activities: list[tuple[int, int, str, int]],
    is_foreign: bool,
) -> None:
    shim = ShimBuilder()
    shim.source(pid=10)
    shim.clock(BEGIN, EPOCH + BEGIN)
    shim.clock(FINISH, EPOCH + FINISH)
    shift = EPOCH if is_foreign else 0
    for number, (tid, start, length, name, correlation) in enumerate(calls):
        shim.call(tid, shift + start, shift + start + length, name, correlation=correlation)
        if number % 5 == 4:
            shim.flush()
    for start, length, name, correlation in activities:
        shim.activity(shift + start, shift + start + length, name, correlation=correlation)
    path, _ = saved(kernel_half(tmp_path / "spool", tids=(10, 11)), shim)
    kinds = {"cudaLaunchKernel": "launch", "cuMemcpyHtoD_v2": "memcpy"}
    assert rows(path, CALLS) == sorted(
        (tid - 9, start, start + length, kinds[name], name, correlation)
        for tid, start, length, name, correlation in calls
    )
    assert rows(path, ACTIVITIES) == sorted(
        (start, start + length, "kernel", name, correlation)
        for start, length, name, correlation in activities
    )
    known = {call[4] for call in calls}
    unmatched = sum(activity[3] not in known for activity in activities) if calls else 0
    found = losses(path).get("gpu_without_call", ("unmatched", 0))
    assert found == ("unmatched", unmatched)
