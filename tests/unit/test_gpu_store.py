"""Records of the GPU become rows: whose, on the clock of the trace, named as imports name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlscope_analysis.derive import complete
from rlscope_trace.store.finalise import FinaliseReport, finalise
from rlscope_trace.store.spool import open_spool
from shim_builder import DRIVER, GRAPH, MEMCPY, MEMSET, OFF, ON, REFUSED, SYNC, ShimBuilder
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

# What the kernel recorded of each thread below.
BEGIN, FINISH = 100, 10_000
EPOCH = 1_700_000_000 * 10**9
CALLS = "SELECT thread_id, start_ns, end_ns, kind, name, correlation_id FROM cuda_call ORDER BY ALL"
ACTIVITIES = "SELECT start_ns, end_ns, kind, name, correlation_id FROM gpu_activity ORDER BY ALL"


def kernel_half(folder: Path, *, tids: tuple[int, ...] = (10,), end: bool = True) -> Path:
    """Write the spool of threads of process 10, ids from 1, which lived from BEGIN to FINISH."""
    spool = SpoolBuilder()
    for thread_id, tid in enumerate(tids, 1):
        spool.thread(thread_id, ts_ns=BEGIN, tid=tid, tgid=10)
        spool.cycle(thread_id, off_ns=BEGIN, wake_ns=BEGIN, in_ns=BEGIN + 10, out_ns=1000)
        spool.cycle(thread_id, off_ns=1000, wake_ns=2000, in_ns=2000, out_ns=FINISH - 50)
        spool.close(thread_id, off_ns=FINISH - 50)
    session = {"host": "box", "gpu": {"measured": True, "reason": "CUPTI"}}
    spool.write(folder, end_ns=FINISH if end else 0, session=session)
    return folder


def saved(
    folder: Path, shim: ShimBuilder, *, version: int = 2, views: bool = False
) -> tuple[Path, FinaliseReport]:
    shim.write(folder, version=version)
    output = folder.with_name("trace.duckdb")
    report = finalise(
        open_spool(folder), output, overwrite=True,
        complete=complete if views else lambda _: None, progress=lambda *_: None,
    )  # fmt: skip
    return output, report


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(query).fetchall()


def losses(path: Path) -> dict[str, tuple[object, ...]]:
    found = rows(path, "SELECT source, kind, count FROM trace_stat")
    return {str(source): tuple(rest) for source, *rest in found}


def verdicts(path: Path) -> list[tuple[object, ...]]:
    return rows(
        path,
        "SELECT kind, process_id, measured, reason FROM capture"
        " WHERE starts_with(kind, 'gpu_') OR kind = 'cuda_call' ORDER BY ALL NULLS LAST",
    )


@pytest.fixture
def shim() -> ShimBuilder:
    """Return the shim of process 10 with the thread of CUPTI, which nobody asks about."""
    made = ShimBuilder()
    made.source(pid=10)
    made.thread(tid=99, ts_ns=BEGIN)
    return made


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
    assert losses(path) == {}


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


def test_other_clocks_are_converted_between_readings(tmp_path: Path, shim: ShimBuilder) -> None:
    # The wall clock runs fast: it gains 100 ns in the 1,000 ns between the readings.
    shim.clock(1000, EPOCH + 1000, width_ns=40)
    shim.clock(2000, EPOCH + 2100, width_ns=60)
    shim.clock(3000, EPOCH + 3300, width_ns=50)
    shim.status(has_clock=0)
    shim.call(10, EPOCH + 1550, EPOCH + 1770, correlation=1)
    shim.activity(EPOCH + 900, EPOCH + 950, "before the first", correlation=1)
    shim.activity(EPOCH + 3500, EPOCH + 3510, "after the last", correlation=1)
    shim.activity(4000, 4010, "on the clock of the trace", correlation=1)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, CALLS) == [(1, 1500, 1700, "launch", "cudaLaunchKernel", 1)]
    assert rows(path, ACTIVITIES) == [
        (900, 950, "kernel", "before the first", 1),
        (3200, 3210, "kernel", "after the last", 1),
        (4000, 4010, "kernel", "on the clock of the trace", 1),
    ]
    assert rows(path, "SELECT clock FROM gpu_status") == [("converted",)]
    # Half of the widest reading, and 50 ns by which the second is off the line of its neighbours.
    ((reason,),) = rows(path, "SELECT reason FROM capture WHERE kind = 'gpu_activity' AND measured")
    assert "to within 0.1 us" in str(reason)
    assert losses(path) == {}


def test_a_clock_of_its_own_goes_before_the_wall_clock(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.clock(1000, EPOCH, EPOCH + 77_000)
    shim.clock(2000, EPOCH + 1000, EPOCH + 78_000)
    shim.status(has_clock=0)
    shim.activity(EPOCH + 77_500, EPOCH + 77_600, "k", work=SYNC)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT start_ns, end_ns FROM gpu_activity") == [(1500, 1600)]


@pytest.mark.parametrize("step_ns", [-5_000_000, 5_000_000])
def test_what_lies_around_a_clock_that_was_set_is_lost(
    tmp_path: Path, shim: ShimBuilder, step_ns: int
) -> None:
    for at_ns in (1000, 2000):
        shim.clock(at_ns, EPOCH + at_ns)
    for at_ns in (3000, 4000):
        shim.clock(at_ns, EPOCH + at_ns + step_ns)
    shim.status(has_clock=0)
    shim.activity(EPOCH + 1500, EPOCH + 1600, work=SYNC)
    shim.activity(EPOCH + 3500 + step_ns, EPOCH + 3600 + step_ns, work=SYNC)
    # Set ahead, this is nobody's time. Set back, it comes long after the last reading, and the
    # other two may each be two instants.
    shim.activity(EPOCH + 2500, EPOCH + 2501, work=SYNC)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    kept = [(1500, 1600), (3500, 3600)] if step_ns > 0 else []
    assert [row[:2] for row in rows(path, ACTIVITIES)] == kept
    lost = 1 if step_ns > 0 else 2
    assert losses(path) == {"GPU records on a clock that cannot be converted": ("dropped", lost)}
    ((reason,),) = rows(path, "SELECT reason FROM capture WHERE kind = 'gpu_activity' AND measured")
    assert "clock was set" in str(reason)


def test_what_cannot_be_told_is_counted(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status()
    shim.call(10, 200, 210, correlation=1)
    shim.call(10, 0, 210)
    shim.call(10, 300, 290)
    shim.call(77, 300, 310)
    shim.call(10, EPOCH, EPOCH + 1)
    shim.activity(220, 230, "kernel", correlation=1)
    shim.activity(240, 0, "never ended", correlation=1)
    shim.activity(250, 260, "whose", correlation=5)
    shim.activity(240, 250, "whose", correlation=0)
    shim.activity(270, 280, work=MEMCPY, detail=11)  # nobody asked for it
    shim.activity(270, 280, work=200)
    shim.lost(1, 100, ts_ns=300)
    shim.lost(1, 11, ts_ns=200)
    shim.lost(2, 7, activity=54)
    shim.lost(3, 2)
    shim.string("x" * 1024, cut=True)
    shim.told.add("x" * 1024)
    shim.activity(290, 291, "x" * 1024, correlation=1)
    shim.told.add("never told")
    shim.activity(292, 293, "never told", correlation=1)
    shim.counters(dropped=9)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert [row[3] for row in rows(path, ACTIVITIES)] == [
        "kernel", "whose", "whose", "Memcpy HtoD (unified memory)", "x" * 1024, "(name lost)",
    ]  # fmt: skip
    assert losses(path) == {
        "operations: the ring of a thread was full": ("dropped", 9),
        "operations: damaged records": ("dropped", 1),
        "GPU records: CUPTI had no buffer left": ("dropped", 111),
        "GPU records: there was no memory for a buffer of CUPTI": ("dropped", 2),
        "GPU records of a form that is not known, of CUPTI's kind 54": ("dropped", 7),
        "GPU records without a start or an end": ("dropped", 2),
        "GPU records that end before they start": ("dropped", 1),
        "GPU records on a clock that cannot be converted": ("dropped", 1),
        "CUDA calls of threads that are not in the trace": ("unmatched", 1),
        "GPU activities whose call is not in the trace": ("unmatched", 2),
        "names of GPU records longer than 1024 bytes: cut": ("truncated", 1),
    }
    firsts = {row[0]: row[1] for row in rows(path, "SELECT source, first_ns FROM trace_stat")}
    assert firsts["GPU records: CUPTI had no buffer left"] == 200
    assert firsts["GPU activities whose call is not in the trace"] == 240


def test_activities_need_no_call_where_calls_are_not_recorded(
    tmp_path: Path, shim: ShimBuilder
) -> None:
    shim.status(recorded=1 << 10, refused=(1 << 4) | (1 << 5))
    shim.activity(220, 230, "kernel", correlation=1)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert losses(path) == {}
    assert verdicts(path)[:1] == [("cuda_call", 1, False, "CUPTI refused driver, runtime")]


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
    assert losses(path) == {"CUDA calls of threads that are not in the trace": ("unmatched", 1)}


def test_what_came_outside_of_the_recording_is_left_out(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status()
    for start_ns in (10, BEGIN - 5, FINISH - 5, FINISH + 5):
        shim.call(10, start_ns, start_ns + 10, correlation=start_ns)
        shim.activity(start_ns, start_ns + 10, "k", correlation=start_ns)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert [row[1] for row in rows(path, CALLS)] == [BEGIN - 5, FINISH - 5]
    assert [row[0] for row in rows(path, ACTIVITIES)] == [BEGIN - 5, FINISH - 5]
    assert losses(path) == {}


def test_statuses_devices_and_streams(tmp_path: Path, shim: ShimBuilder) -> None:
    for _ in range(2):  # a second reader is told again
        shim.status(ts_ns=300, refused=1 << 49)
        shim.device(0, "NVIDIA H200")
    shim.device(1, "NVIDIA H200 MIG 1g.18gb", uuid=bytes([255] * 16), is_mig=1)
    shim.named(1, None, "training")
    shim.named(1, 7)
    shim.named(1, 7, "copies")
    shim.overhead(1, 400, 500, tid=10)
    shim.overhead(999, 400, 500)
    shim.memory(410, 4096, 0x7F00, release=False, correlation=3)
    shim.memory(420, 4096, 0x7F00, release=True, memory_kind=2)
    path, report = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT * FROM gpu_status") == [
        (
            1, 300, "on", None, None, "/lib/libcupti.so.13", 130001, 13000,
            "memcpy, memset, driver, runtime, concurrent_kernel, overhead, synchronization,"
            " graph_trace", "memory2", False, "monotonic",
        )
    ]  # fmt: skip
    uuid = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert rows(path, "SELECT host, device_id, uuid, compute_capability FROM gpu_device") == [
        ("box", 0, uuid, "9.0"),
        ("box", 1, "MIG-ffffffff-ffff-ffff-ffff-ffffffffffff", "9.0"),
    ]
    assert rows(path, "SELECT * FROM gpu_stream") == [
        (1, 0, 1, None, "training"),
        (1, 0, 1, 7, "copies"),
    ]
    assert rows(path, "SELECT * FROM gpu_overhead") == [
        (1, 1, 400, 500, "buffer_flush"),
        (1, None, 400, 500, "other"),
    ]
    assert rows(path, "SELECT * FROM gpu_memory") == [
        (1, 0, 1, 410, "allocate", "device", 4096, 0x7F00, 3),
        (1, 0, 1, 420, "free", "pinned", 4096, 0x7F00, None),
    ]
    assert report.rows["gpu_device"] == 2
    assert losses(path) == {
        "statuses and devices that a process told more than once: kept once": ("unmatched", 2),
    }


NO_OTHERS = ("gpu_activity", None, False, "CUDA was not initialised, as far as the recorder heard")
GRAPHS = "CUPTI; a CUDA graph is one activity: its kernels were not recorded one by one"


@pytest.mark.parametrize(
    ("state", "more", "expected"),
    [
        (OFF, {}, [(1, False, "why")]),
        (REFUSED, {"code": 39}, [(1, False, "why")]),
        (ON, {}, [(1, True, GRAPHS)]),
        (ON, {"recorded": 1 << 10}, [(1, True, "CUPTI")]),
        (
            ON,
            {"recorded": 1 << 5, "refused": 1 << 10},
            [(1, False, "CUPTI refused concurrent_kernel")],
        ),
        (
            ON,
            {"recorded": 1 << 10, "refused": 1 << 1, "is_late": 1},
            [(
                1, True,
                "in part: the process had run before: not what came until then;"
                " CUPTI refused memcpy",
            )],
        ),
    ],
)  # fmt: skip
def test_what_was_measured_of_the_gpu_is_told(
    tmp_path: Path,
    shim: ShimBuilder,
    state: int,
    more: dict[str, int],
    expected: list[tuple[object, ...]],
) -> None:
    shim.status(state, "why" if state != ON else "", **more)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    found = [row for row in verdicts(path) if row[0] == "gpu_activity"]
    assert found == [("gpu_activity", *row) for row in expected]


def test_processes_that_said_nothing_are_not_measured(tmp_path: Path, shim: ShimBuilder) -> None:
    folder = tmp_path / "spool"
    spool = SpoolBuilder()
    for number, pid in enumerate((10, 20), 1):
        spool.thread(number, ts_ns=BEGIN, tid=pid, tgid=pid)
        spool.close(number, off_ns=FINISH)
    told = {"measured": False, "reason": "not asked for: --cupti off"}
    spool.write(folder, end_ns=FINISH, session={"host": "box", "gpu": told})
    shim.status()
    path, _ = saved(folder, shim)
    assert [row[1:] for row in verdicts(path) if row[0] == "gpu_activity"] == [
        (1, True, GRAPHS),
        (None, False, "not asked for: --cupti off"),
    ]


def test_the_last_status_holds(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status(ts_ns=200)
    shim.status(REFUSED, "cuptiActivityEnable failed", ts_ns=300, code=39)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT state, code FROM gpu_status") == [("on", None), ("refused", 39)]
    assert ("gpu_activity", 1, False, "cuptiActivityEnable failed") in verdicts(path)


def test_a_process_without_cuda_is_not_measured(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.thread(tid=10, ts_ns=BEGIN)
    shim.range("step", 200, 300)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim, version=1, views=True)
    # An old spool is read as well.
    assert rows(path, "SELECT name FROM operation") == [("step",)]
    assert verdicts(path) == [NO_OTHERS]
    busy = "SELECT DISTINCT gpu_busy FROM breakdown"
    assert rows(path, busy) == [(None,)]


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
    found = losses(path).get("GPU activities whose call is not in the trace", ("unmatched", 0))
    assert found == ("unmatched", unmatched)
