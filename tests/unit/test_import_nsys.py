"""Imports exports of Nsight Systems: GPU activities, calls, threads, devices, clocks."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from nsys_builder import EPOCH_NS, PID, TID, Imported, NsysBuilder, global_id, imported
from trace_builder import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

MOCK = REPOSITORY / "tests" / "data" / "nsys" / "mock.sqlite"
TABLES = {
    "kernel": "CUPTI_ACTIVITY_KIND_KERNEL",
    "memcpy": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "sync": "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
}


@pytest.fixture
def builder(tmp_path: Path) -> NsysBuilder:
    return NsysBuilder(tmp_path / "report.sqlite")


def union_ns(intervals: list[tuple[int, int]]) -> int:
    """Add up the time in which at least one was under way, the slow and obvious way."""
    total, reach = 0, None
    for start, end in sorted(intervals):
        begin = start if reach is None else max(start, reach)
        total += max(0, end - begin)
        reach = end if reach is None else max(reach, end)
    return total


def truth(path: Path, table: str) -> tuple[int, int, int, int]:
    """Return count, sum, union and span of a table of an export."""
    with closing(sqlite3.connect(path)) as connection:
        intervals = connection.execute(f'SELECT start, "end" FROM {table}').fetchall()
    return measures(intervals)


def measures(intervals: list[tuple[int, int]]) -> tuple[int, int, int, int]:
    total = sum(end - start for start, end in intervals)
    span = max(end for _, end in intervals) - min(start for start, _ in intervals)
    return len(intervals), total, union_ns(intervals), span


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    return imported(shutil.copy(MOCK, tmp_path_factory.mktemp("nsys") / "mock.sqlite"))


class TestRealExport:
    @pytest.mark.parametrize(("kind", "count"), [("kernel", 2), ("memcpy", 1), ("sync", 1)])
    def test_activities_are_those_of_the_export(
        self, trace: Imported, kind: str, count: int
    ) -> None:
        found = trace.rows(f"SELECT start_ns, end_ns FROM gpu_activity WHERE kind = '{kind}'")
        assert measures(found) == truth(MOCK, TABLES[kind])
        assert len(found) == count

    def test_calls_are_those_of_the_export(self, trace: Imported) -> None:
        found = trace.rows("SELECT start_ns, end_ns FROM cuda_call")
        assert measures(found) == truth(MOCK, "CUPTI_ACTIVITY_KIND_RUNTIME")
        assert len(found) == 9

    def test_kinds_and_names(self, trace: Imported) -> None:
        assert trace.rows("SELECT kind, name, correlation_id FROM cuda_call ORDER BY start_ns") == [
            ("other", "cuModuleGetLoadingMode", 1),
            ("other", "cudaGetDeviceProperties_v12000", 127),
            ("other", "cudaStreamIsCapturing_v10000", 134),
            ("memory", "cudaMalloc_v3020", 135),
            ("launch", "cudaLaunchKernel_v7000", 143),
            ("launch", "cudaLaunchKernel_v7000", 159),
            ("memory", "cudaHostAlloc_v3020", 167),
            ("memcpy", "cudaMemcpyAsync_v3020", 171),
            ("sync", "cudaStreamSynchronize_v3020", 172),
        ]
        assert trace.rows(
            "SELECT kind, split_part(name, '<', 1), stream_id, bytes, correlation_id"
            " FROM gpu_activity ORDER BY start_ns"
        ) == [
            ("kernel", "void at::native::vectorized_elementwise_kernel", 7, None, 143),
            ("kernel", "void at::native::reduce_kernel", 7, None, 159),
            ("sync", "Stream wait sync", 7, None, 172),
            ("memcpy", "Memcpy DtoH", 7, 4, 171),
        ]

    def test_only_threads_with_events_enter_the_trace(self, trace: Imported) -> None:
        assert trace.rows("SELECT pid, parse_filename(name), host FROM process") == [
            (91186, "python", "DESKTOP-KBEMEQS")
        ]
        assert trace.rows("SELECT process_id, tid, name FROM thread") == [(1, 91186, "python")]

    def test_device_clock_and_facts(self, trace: Imported) -> None:
        assert trace.rows("SELECT * FROM gpu_device") == [
            (
                "DESKTOP-KBEMEQS", 0, "NVIDIA GeForce RTX 3080",
                "554a6988-03dd-6206-3dd1-f43fb60a3ed0", 10_736_893_952, 68, "8.6",
                1_710_000_000, 760_080_000_000,
            )
        ]  # fmt: skip
        assert trace.rows("FROM clock") == [(0, 1_776_781_226_557_295_056, None)]
        facts = dict(trace.rows("SELECT key, value FROM meta"))
        assert facts["loader"] == "import"
        assert facts["backends"] == "Nsight Systems 2026.1.1.204, schema 3.24.14"
        assert facts["imported_from"] == '["mock.sqlite"]'
        assert facts["start_ns"] == "1304349703"
        assert facts["end_ns"] == "1540180135"
        assert "Unified Memory cannot be traced" in facts["nsys_diagnostics"]

    def test_what_was_measured(self, trace: Imported) -> None:
        assert dict(trace.rows("SELECT kind, measured FROM coverage")) == {
            "thread_state": False, "operation": False, "native_call": False, "wait": False,
            "cuda_call": True, "gpu_activity": True,
        }  # fmt: skip

    def test_what_was_left_out(self, trace: Imported) -> None:
        assert trace.losses() == {
            ("skipped", "nsys_table_skipped CUPTI_ACTIVITY_KIND_OVERHEAD"): 6,
            ("skipped", "nsys_table_skipped PROFILER_OVERHEAD"): 25,
        }


@pytest.mark.parametrize("schema", ["2026", "2024", "2020"])
def test_every_schema_gives_the_same_events(tmp_path: Path, schema: str) -> None:
    builder = NsysBuilder(tmp_path / "report.sqlite", schema=schema)
    builder.call(100, 110, correlation=1)
    builder.call(120, 130, correlation=2, name="cuMemcpyHtoDAsync_v2")
    builder.kernel(200, 260, correlation=1)
    builder.activity("MEMCPY", 300, 320, correlationId=2, copyKind=1, bytes=64)
    builder.nvtx(90, 140, "step")
    builder.name_thread("trainer")
    trace = imported(builder.write())
    assert trace.rows("SELECT start_ns, end_ns, kind, name FROM gpu_activity ORDER BY 1") == [
        (200, 260, "kernel", "void gemm<float>(T1)"),
        (300, 320, "memcpy", "Memcpy HtoD"),
    ]
    assert trace.rows("SELECT start_ns, end_ns, kind FROM cuda_call ORDER BY 1") == [
        (100, 110, "launch"),
        (120, 130, "memcpy"),
    ]
    assert trace.rows("SELECT start_ns, end_ns, name, depth FROM operation") == [
        (90, 140, "step", 0)
    ]
    assert trace.rows(
        "SELECT pid, tid, t.name FROM thread AS t JOIN process USING (process_id)"
    ) == [(PID, TID, "trainer")]
    assert trace.losses() == {}


def test_an_export_that_tells_no_process(tmp_path: Path) -> None:
    builder = NsysBuilder(tmp_path / "report.sqlite", schema="bare", epoch_ns=None, host=None)
    builder.call(100, 110, correlation=1)
    builder.kernel(200, 260, correlation=1)
    builder.nvtx(90, 140, "step")
    trace = imported(builder.write())
    assert trace.rows("SELECT pid, name, host, start_ns, end_ns FROM process") == [
        (None, None, None, 90, 260)
    ]
    assert trace.rows("SELECT tid, start_ns, end_ns FROM thread") == [(None, 90, 140)]
    assert trace.rows("SELECT context_id, graph_id, correlation_id FROM gpu_activity") == [
        (None, None, 1)
    ]
    assert trace.rows("SELECT name, domain, category FROM operation") == [("step", None, None)]
    assert trace.rows("SELECT count(*) FROM clock") == [(0,)]
    assert trace.losses() == {}


def test_a_kernel_without_a_process_belongs_to_the_only_one(builder: NsysBuilder) -> None:
    builder.call(100, 110, correlation=1)
    builder.kernel(200, 260, correlation=1, globalPid=None)
    trace = imported(builder.write())
    assert trace.rows("SELECT pid FROM gpu_activity") == [(PID,)]
    assert trace.losses() == {}


class TestGpuActivities:
    def test_each_kind(self, builder: NsysBuilder) -> None:
        builder.activity("MEMSET", 10, 20, bytes=4096, correlationId=1)
        builder.activity("GRAPH_TRACE", 30, 90, graphId=12, correlationId=2)
        builder.activity("MEMCPY", 95, 96, copyKind=99, bytes=1, correlationId=3)
        builder.activity("MEMCPY", 97, 98, copyKind=8, bytes=0, correlationId=4)
        builder.activity(
            "SYNCHRONIZATION", 100, 100, syncType=4, streamId=0xFFFFFFFF, correlationId=0
        )
        builder.kernel(101, 102, graphId=12, graphNodeId=7, correlation=2)
        builder.kernel(103, 104, graphId=0, correlation=5)
        for correlation in range(1, 6):
            builder.call(correlation, correlation + 1, correlation=correlation)
        trace = imported(builder.write())
        assert trace.rows(
            "SELECT kind, name, stream_id, correlation_id, graph_id, bytes FROM gpu_activity"
            " ORDER BY start_ns"
        ) == [
            ("memset", "Memset", 7, 1, None, 4096),
            ("graph", "CUDA graph 12", 7, 2, 12, None),
            ("memcpy", "Memcpy (99)", 7, 3, None, 1),
            ("memcpy", "Memcpy DtoD", 7, 4, None, 0),
            ("sync", "Context sync", None, None, None, None),
            ("kernel", "void gemm<float>(T1)", 7, 2, 12, None),
            ("kernel", "void gemm<float>(T1)", 7, 5, None, None),
        ]
        assert trace.losses() == {}

    def test_overlaps_and_equal_rows_of_one_stream_are_kept(self, builder: NsysBuilder) -> None:
        for start, end in ((100, 200), (150, 250), (150, 250), (160, 170)):
            builder.kernel(start, end, correlation=1)
        builder.call(10, 20, correlation=1)
        trace = imported(builder.write())
        assert trace.rows("SELECT count(*), sum(end_ns - start_ns) FROM gpu_activity") == [(4, 310)]

    def test_orphans_are_kept_and_counted(self, builder: NsysBuilder) -> None:
        builder.call(10, 20, correlation=1)
        builder.call(10, 20, correlation=2, pid=PID + 1)
        builder.kernel(100, 200, correlation=1)
        builder.kernel(300, 400, correlation=2)  # the call of another process
        builder.kernel(250, 260, correlation=None)
        builder.activity("MEMCPY", 500, 600, copyKind=11, bytes=4096)  # pages that moved: no call
        trace = imported(builder.write())
        assert trace.rows("SELECT count(*) FROM gpu_activity") == [(4,)]
        (orphans,) = trace.report.losses
        assert (orphans.kind, orphans.count, orphans.first_ns) == ("unmatched", 2, 250)

    def test_a_half_activity_is_left_out_and_counted(self, builder: NsysBuilder) -> None:
        builder.call(10, 20, correlation=1)
        builder.call(30, None, correlation=2)
        builder.kernel(100, 200, correlation=1)
        builder.activity("GRAPH_TRACE", 7000, 0, graphId=1, correlationId=1)
        trace = imported(builder.write())
        assert trace.rows("SELECT kind FROM gpu_activity") == [("kernel",)]
        assert trace.rows("SELECT start_ns FROM cuda_call") == [(10,)]
        assert trace.losses() == {
            ("unmatched", "nsys_half CUPTI_ACTIVITY_KIND_GRAPH_TRACE"): 1,
            ("unmatched", "nsys_half CUPTI_ACTIVITY_KIND_RUNTIME"): 1,
        }

    def test_numbers_beyond_32_bits(self, builder: NsysBuilder) -> None:
        start = 1 << 60
        builder.call(start, start + 1, correlation=(1 << 32) + 5)
        builder.kernel(start + 7, start + 11, correlation=(1 << 32) + 5, stream=(1 << 40))
        builder.kernel(start + 9, start + 12, correlation=(1 << 32) + 5, device=(1 << 40))
        trace = imported(builder.write())
        assert trace.rows(
            "SELECT start_ns, stream_id, device_id, correlation_id FROM gpu_activity ORDER BY 1"
        ) == [
            (start + 7, 1 << 40, 0, (1 << 32) + 5),
            (start + 9, 7, None, (1 << 32) + 5),
        ]


class TestProcessesAndThreads:
    def test_they_are_numbered_by_time_and_last_as_long_as_their_events(
        self, builder: NsysBuilder
    ) -> None:
        builder.call(500, 600, correlation=1, pid=10, tid=11)
        builder.call(300, 310, pid=20, tid=21)
        builder.call(400, 410, pid=20, tid=22)
        builder.kernel(700, 800, correlation=1, pid=10)
        builder.row("PROCESSES", globalPid=global_id(20), pid=20, name="actor")
        builder.name_thread("low", pid=20, tid=21, priority=1)
        builder.name_thread("high", pid=20, tid=21, priority=30)
        trace = imported(builder.write())
        assert trace.rows("SELECT process_id, pid, start_ns, end_ns, name FROM process") == [
            (1, 20, 300, 410, "actor"),
            (2, 10, 500, 800, None),
        ]
        assert trace.rows(
            "SELECT thread_id, process_id, tid, start_ns, end_ns, name, ended, lost_ns FROM thread"
        ) == [
            (1, 1, 21, 300, 310, "high", None, None),
            (2, 1, 22, 400, 410, None, None, None),
            (3, 2, 11, 500, 600, None, None, None),
        ]

    def test_equal_pids_of_two_machines_are_two_processes(self, builder: NsysBuilder) -> None:
        builder.row("CUPTI_ACTIVITY_KIND_RUNTIME", start=1, end=2, globalTid=global_id(5, 6, vm=1))
        builder.row("CUPTI_ACTIVITY_KIND_RUNTIME", start=3, end=4, globalTid=global_id(5, 6, vm=2))
        trace = imported(builder.write())
        assert trace.rows("SELECT process_id, pid FROM process") == [(1, 5), (2, 5)]
        assert trace.rows("SELECT count(*) FROM thread") == [(2,)]

    def test_a_call_inside_a_call_is_kept(self, builder: NsysBuilder) -> None:
        builder.call(100, 200, correlation=1)
        builder.call(120, 180, correlation=1, name="cuLaunchKernel")
        trace = imported(builder.write())
        assert trace.rows("SELECT start_ns, end_ns, name, correlation_id FROM cuda_call") == [
            (100, 200, "cudaLaunchKernel_v7000", 1),
            (120, 180, "cuLaunchKernel", 1),
        ]


class TestDevices:
    def test_a_process_counts_its_own_way(self, builder: NsysBuilder) -> None:
        for gpu_id, name in ((0, "H100"), (1, "H200")):
            builder.row(
                "TARGET_INFO_GPU", id=gpu_id, name=name, uuid=f"uuid-{gpu_id}", totalMemory=80,
                smCount=132, computeMajor=9, computeMinor=0, cuDevice=gpu_id, clockRate=2 * 10**9,
                memoryBandwidth=(3 + gpu_id) * 10**12,
            )  # fmt: skip
        builder.row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=1)
        builder.row("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=2)
        builder.row("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=1, pid=1)
        builder.kernel(1, 2)
        builder.kernel(1, 2, device=3)
        assert imported(builder.write()).rows("FROM gpu_device ORDER BY device_id") == [
            # Two GPUs go by this number.
            ("trainer", 0, None, None, 80, 132, "9.0", 2 * 10**9, None),
            ("trainer", 1, "H200", "uuid-1", 80, 132, "9.0", 2 * 10**9, 4 * 10**12),
            ("trainer", 3, *[None] * 7),
        ]


class TestClocks:
    def test_two_files_on_one_clock(self, tmp_path: Path) -> None:
        for rank, epoch_ns in ((0, EPOCH_NS + 1_000), (1, EPOCH_NS)):
            builder = NsysBuilder(tmp_path / f"rank{rank}.sqlite", epoch_ns=epoch_ns)
            builder.call(10, 20, correlation=1)
            builder.kernel(100, 150, correlation=1)
            builder.nvtx(5, 160, f"rank {rank}")
            builder.nvtx(5, 160, "lasting", kind=60)
            builder.write()
        trace = imported(tmp_path / "rank0.sqlite", tmp_path / "rank1.sqlite")
        assert trace.rows("SELECT process_id, pid, start_ns, end_ns FROM process") == [
            (1, PID, 5, 160),
            (2, PID, 1_005, 1_160),
        ]
        assert trace.rows("SELECT process_id, start_ns, end_ns FROM gpu_activity") == [
            (1, 100, 150),
            (2, 1_100, 1_150),
        ]
        assert trace.rows("SELECT thread_id, start_ns, name FROM operation ORDER BY 1") == [
            (1, 5, "rank 1"),
            (2, 1_005, "rank 0"),
        ]
        assert trace.rows("SELECT process_id, start_ns, name FROM async_range") == [
            (1, 5, "lasting"),
            (2, 1_005, "lasting"),
        ]
        assert trace.rows("SELECT ts_ns, realtime_ns FROM clock ORDER BY 1") == [
            (0, EPOCH_NS),
            (1_000, EPOCH_NS + 1_000),
        ]
        assert trace.losses() == {}

    @pytest.mark.parametrize(
        ("option", "value", "shift_ns"),
        [("TIME_SHIFT", "500", 500), ("TIME_NORMALIZE", "true", EPOCH_NS)],
    )
    def test_times_that_the_export_moved(
        self, builder: NsysBuilder, option: str, value: str, shift_ns: int
    ) -> None:
        builder.row("META_DATA_EXPORT", name=f"EXPORT_PARAM_{option}", value=value)
        builder.call(shift_ns + 10, shift_ns + 20)
        trace = imported(builder.write())
        assert trace.rows("SELECT ts_ns, realtime_ns FROM clock") == [(shift_ns, EPOCH_NS)]
        assert trace.rows("SELECT start_ns FROM cuda_call") == [(shift_ns + 10,)]


def test_tables_without_a_place_are_counted(builder: NsysBuilder) -> None:
    builder.call(1, 2)
    for start in range(3):
        builder.row("OSRT_API", start=start, end=start + 1)
    builder.row("GPU_METRICS", timestamp=5, metricId=1, value=50)
    builder.row("SOMETHING_NEW", start=5, what=1)
    builder.row("MPI_RANKS", rank=0)  # no event
    assert imported(builder.write()).losses() == {
        ("skipped", "nsys_table_skipped OSRT_API"): 3,
        ("skipped", "nsys_table_skipped GPU_METRICS"): 1,
        ("skipped", "nsys_table_skipped SOMETHING_NEW"): 1,
    }


class TestCapture:
    def measured(self, builder: NsysBuilder) -> dict[str, bool]:
        return dict(imported(builder.write()).rows("SELECT kind, measured FROM coverage"))

    def test_an_empty_table_tells_nothing(self, builder: NsysBuilder) -> None:
        builder.with_empty_tables = True
        builder.nvtx(1, 2, "step")
        measured = self.measured(builder)
        assert measured.pop("operation")
        assert not any(measured.values())

    def test_calls_without_work_leave_an_idle_gpu(self, builder: NsysBuilder) -> None:
        builder.call(1, 2, name="cudaMalloc_v3020")
        assert self.measured(builder)["gpu_activity"]

    def test_launches_without_activities_are_no_idle_gpu(self, builder: NsysBuilder) -> None:
        builder.call(1, 2)
        assert not self.measured(builder)["gpu_activity"]

    def test_whole_graphs_are_told(self, builder: NsysBuilder) -> None:
        builder.activity("GRAPH_TRACE", 1, 2, graphId=3)
        rows = imported(builder.write()).rows(
            "SELECT measured, code FROM coverage WHERE kind = 'gpu_activity'"
        )
        assert rows == [(True, "graphs_whole")]
