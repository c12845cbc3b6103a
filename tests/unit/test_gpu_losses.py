"""What cannot be told of the GPU is counted, and no damage is more than a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
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
    verdicts,
)
from rlscope_trace._ingest import (
    ShimGpuReader,
    ShimScan,
    shim_gpu_clocks,
    shim_gpu_names,
    shim_gpu_statuses,
)
from shim_builder import MEMCPY, ShimBuilder
from spool_builder import DEAD, SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shim() -> ShimBuilder:
    return cupti_thread()


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
    shim.reported.add("x" * 1024)
    shim.activity(290, 291, "x" * 1024, correlation=1)
    shim.reported.add("never told")
    shim.activity(292, 293, "never told", correlation=1)
    shim.counters(dropped=9)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert [row[3] for row in rows(path, ACTIVITIES)] == [
        "kernel", "whose", "whose", "Memcpy HtoD (unified memory)", "x" * 1024, "(name lost)",
    ]  # fmt: skip
    assert losses(path) == {
        "operation_ring_full": ("dropped", 9),
        "operations_damaged": ("dropped", 1),
        "cupti_buffers_full": ("dropped", 111),
        "cupti_without_memory": ("dropped", 2),
        "cupti_kind_unknown 54": ("dropped", 7),
        "gpu_untimed": ("dropped", 2),
        "gpu_backwards": ("dropped", 1),
        "gpu_clock_unknown": ("dropped", 1),
        "cuda_call_without_thread": ("unmatched", 1),
        "gpu_without_call": ("unmatched", 2),
        "gpu_name_cut": ("truncated", 1),
    }
    firsts = {row[0]: row[1] for row in rows(path, "SELECT code, first_ns FROM trace_stat")}
    assert firsts["cupti_buffers_full"] == 200
    assert firsts["gpu_without_call"] == 240


def test_activities_need_no_call_where_calls_are_not_recorded(
    tmp_path: Path, shim: ShimBuilder
) -> None:
    shim.status(recorded=1 << 10, refused=(1 << 4) | (1 << 5))
    shim.activity(220, 230, "kernel", correlation=1)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert losses(path) == {}
    assert verdicts(path)[:1] == [("cuda_call", 1, False, "CUPTI refused driver, runtime")]


@pytest.mark.parametrize("is_late", [0, 1])
def test_an_earlier_start_helps_where_recording_began_late(
    tmp_path: Path, shim: ShimBuilder, is_late: int
) -> None:
    shim.status(is_late=is_late)
    shim.call(10, 200, 210, correlation=1)
    shim.activity(220, 230, "kernel", correlation=2)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    found = rows(path, "SELECT count, first_ns, code LIKE '%late' FROM trace_stat ORDER BY ALL")
    assert found == [(1, 200, bool(is_late)), (1, 220, bool(is_late))]


def test_what_came_outside_of_the_recording_is_left_out(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status()
    for start_ns in (10, BEGIN - 5, FINISH - 5, FINISH + 5):
        shim.call(10, start_ns, start_ns + 10, correlation=start_ns)
        shim.activity(start_ns, start_ns + 10, "k", correlation=start_ns)
    # Half of a pair is no loss of this recording, where it came before it; nor is damage.
    shim.call(10, 20, 30, correlation=7)
    shim.activity(40, 50, "k", correlation=8)
    shim.activity(60, 55, "k")
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert [row[1] for row in rows(path, CALLS)] == [BEGIN - 5, FINISH - 5]
    assert [row[0] for row in rows(path, ACTIVITIES)] == [BEGIN - 5, FINISH - 5]
    assert losses(path) == {}


def example() -> bytes:
    shim = ShimBuilder()
    shim.source(pid=10, inner_pid=1)
    shim.block(5, (1).to_bytes(4, "little") + (10).to_bytes(4, "little"))
    shim.clock(1000, EPOCH + 1000)
    shim.clock(2000, EPOCH + 2000)
    shim.status(has_clock=0)
    shim.device(0, "NVIDIA H200")
    shim.named(1, 7, "copies")
    shim.call(1, EPOCH + 1100, EPOCH + 1200, correlation=1)
    shim.activity(EPOCH + 1300, EPOCH + 1400, "_ZN2at6native4gemmEi", correlation=1)
    shim.overhead(1, 1500, 1600)
    shim.memory(1700, 4096, 0x7F00, release=False)
    shim.lost(1, 100)
    return shim.data()


EXAMPLE = example()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    damage=st.lists(st.tuples(st.integers(16, len(EXAMPLE) - 1), st.integers(0, 255)), max_size=8),
    length=st.integers(0, len(EXAMPLE)),
)
def test_no_damage_is_more_than_a_loss(
    tmp_path: Path, damage: list[tuple[int, int]], length: int
) -> None:
    data = bytearray(EXAMPLE)
    for place, value in damage:
        data[place] = value
    path = tmp_path / "shim.bin"
    path.write_bytes(data[:length])
    scan = ShimScan(str(path))
    sources, names = len(scan.source_pids()), len(shim_gpu_names(scan))
    reader = ShimGpuReader(scan)
    while (part := reader.next(1)) is not None:
        for columns in part:
            assert len({len(column) for column in columns.values()}) == 1
            assert (columns["source"] < sources).all()
            assert (columns.get("name", np.zeros(0)) < names).all()
            if "end_ns" in columns:
                assert (columns["end_ns"] >= columns["start_ns"]).all()
    assert {status["source"] for status in shim_gpu_statuses(scan)} <= set(range(sources))
    assert len(shim_gpu_clocks(scan)) == sources


def test_what_begins_after_its_thread_ended_is_counted(tmp_path: Path, shim: ShimBuilder) -> None:
    spool = SpoolBuilder()
    for thread_id, tid, tgid, end in ((1, 10, 10, FINISH), (2, 11, 10, 5000), (3, 30, 30, 5000)):
        spool.thread(thread_id, ts_ns=BEGIN, tid=tid, tgid=tgid)
        spool.cycle(thread_id, off_ns=BEGIN, in_ns=BEGIN + 10, out_ns=end, out_state=DEAD)
    spool.write(tmp_path / "spool", end_ns=FINISH, session={"host": "box"})
    shim.status()
    shim.call(11, 4000, 4010, correlation=1)
    shim.activity(4020, 4030, "k", correlation=1)
    shim.call(11, 6000, 6010)
    shim.overhead(11, 6000, 6010)  # its process goes on
    shim.call(11, FINISH + 5, FINISH + 10)  # after the trace
    shim.source(pid=30)
    shim.thread(tid=99, ts_ns=BEGIN)
    shim.activity(6000, 6010, "k")
    shim.overhead(30, 6000, 6010)
    shim.memory(6000, 4096, 0x7F00, release=False)
    shim.source(pid=77)
    shim.thread(tid=99, ts_ns=BEGIN)
    shim.overhead(77, 6000, 6010)
    path, _ = saved(tmp_path / "spool", shim)
    found = losses(path)
    assert found["gpu_after_owner"] == ("unmatched", 4)
    assert found["gpu_without_process"] == ("unmatched", 1)
    assert [row[:2] for row in rows(path, CALLS)] == [(2, 4000)]
