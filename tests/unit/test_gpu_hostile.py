"""GPU records that a program made up to keep the decoder busy, or to mislead it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_spool import EPOCH, cupti_thread
from rlscope_analysis.schema.vocabulary import CUDA_CALL_KINDS
from rlscope_trace._ingest import (
    ShimGpuReader,
    ShimScan,
    shim_gpu_clocks,
    shim_gpu_lost,
    shim_gpu_names,
)
from rlscope_trace.cuda_names import cuda_call_kind
from shim_builder import MEMSET, SYNC, ShimBuilder

WORK = {"launch", "graph", "memcpy", "memset"}
FUNCTIONS = (
    "cudaLaunchKernel_v7000", "cudaLaunchKernelExC_ptsz", "cuLaunchKernel", "cuLaunch",
    "cuLaunchGridAsync", "cuLaunchCooperativeKernelMultiDevice", "cudaLaunch_v3020_ptsz",
    "hipExtModuleLaunchKernel", "hipLaunchByPtr", "cudaGraphLaunch_v10000", "cuGraphLaunch_ptsz",
    "cuMemcpyHtoDAsync_v2_ptsz", "cudaMemcpy_ptds", "cuMemsetD32Async", "cudaMemset2D",
    "cudaLaunchHostFunc", "cuLaunchHostFunc_ptsz", "cudaGraphAddMemcpyNode", "cudaMalloc",
    "cudaDeviceSynchronize", "cudaStreamSynchronize_ptsz", "cudaGraphLaunchNot", "culaunchKernel",
    "cudalaunch", "cuda", "cu", "", "launchKernel", "cudaLaunchAsync", "cudaLaunchAsyncNot",
)  # fmt: skip


@pytest.fixture
def shim() -> ShimBuilder:
    return cupti_thread()


def scanned(folder: Path, shim: ShimBuilder) -> ShimScan:
    shim.write(folder)
    return ShimScan(str(folder / "shim.bin"))


def read(scan: ShimScan, start_ns: int = 0) -> ShimGpuReader:
    reader = ShimGpuReader(scan, start_ns=start_ns)
    while reader.next(1000) is not None:
        pass
    return reader


@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_without_the_work_they_asked_for_are_counted(
    tmp_path: Path, shim: ShimBuilder, name: str
) -> None:
    shim.status()
    shim.call(10, 100, 110, name, correlation=1)
    counted = CUDA_CALL_KINDS[cuda_call_kind(name)] in WORK
    assert read(scanned(tmp_path, shim)).unmatched_calls() == ({0: (1, 100)} if counted else {})


def test_calls_that_worked_or_could_not_be_seen_to_are_not_counted(
    tmp_path: Path, shim: ShimBuilder
) -> None:
    shim.status(recorded=1 << 10)
    shim.call(10, 100, 110, correlation=1)
    shim.activity(120, 130, "k", correlation=1)
    shim.call(10, 200, 210, correlation=2)
    shim.activity(205, 206, work=SYNC, correlation=2)
    shim.call(10, 150, 160, correlation=3)
    shim.call(10, 90, 95, correlation=4, result=700)
    shim.call(10, 90, 95, correlation=0)
    shim.call(10, 90, 95, "cudaMemcpyAsync", correlation=5)
    shim.source(pid=11)
    shim.call(10, 90, 95, correlation=6)
    assert read(scanned(tmp_path, shim)).unmatched_calls() == {0: (2, 150)}


def test_what_began_before_the_trace_is_not_counted(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status(has_clock=0)
    shim.clock(1000, EPOCH + 1000)
    for at_ns in (100, 500, EPOCH + 100, EPOCH + 500):
        shim.call(10, at_ns, at_ns + 1, correlation=7)
        shim.activity(at_ns, at_ns + 1, work=MEMSET, correlation=8)
        shim.activity(at_ns + 1, at_ns, work=MEMSET, correlation=8)
        shim.activity(at_ns, 0, work=MEMSET, correlation=8)
    scan = scanned(tmp_path, shim)
    everything, later = read(scan), read(scan, start_ns=300)
    assert everything.unmatched() == {0: (4, 100)}
    assert everything.unmatched_calls() == {0: (4, 100)}
    assert everything.left_out() == {"untimed": 4, "backwards": 4, "unconverted": 0}
    assert later.unmatched() == {0: (2, 500)}
    assert later.unmatched_calls() == {0: (2, 500)}
    assert later.left_out() == {"untimed": 2, "backwards": 2, "unconverted": 0}
    assert (everything.converted(), later.converted()) == ({0: 6}, {0: 3})


def growing(levels: int) -> str:
    """Return a mangled name whose readable form doubles with each level."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    text = "_Z1f1AIiiE"
    for level in range(1, levels + 1):
        place = level - 1
        last = "S_" if level == 1 else ""
        if level > 1:
            number = place - 1
            high = digits[number // 36] if number >= 36 else ""
            last = f"S{high}{digits[number % 36]}_"
        text += f"S_I{last}{last}E"
    return text


def test_names_that_grow_without_end_stay_as_they_are(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.activity(1, 2, "_Z3addii")
    shim.activity(1, 2, growing(20))
    shim.activity(1, 2, "_Z3subii")
    shim.activity(1, 2, "_Znot")
    shim.activity(1, 2, "plain")
    assert shim_gpu_names(scanned(tmp_path, shim)) == [
        "add(int, int)", growing(20), "sub(int, int)", "_Znot", "plain",
    ]  # fmt: skip


def test_names_that_take_too_long_stay_as_they_are(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.activity(1, 2, growing(60))
    shim.activity(1, 2, "_Z3addii")
    assert shim_gpu_names(scanned(tmp_path, shim)) == [growing(60), "add(int, int)"]


def test_losses_that_nobody_can_have_had_are_damage(tmp_path: Path, shim: ShimBuilder) -> None:
    most = 1 << 48
    for count in (most, most, most + 1, (1 << 64) - 1):
        shim.lost(1, count, ts_ns=5)
    scan = scanned(tmp_path, shim)
    assert shim_gpu_lost(scan) == [(0, 1, 0, most, 5)]
    assert scan.losses()["damaged"] == 2


@pytest.mark.parametrize(("steps", "is_known"), [(63, True), (64, False)])
def test_a_clock_that_jumps_all_the_time_is_not_known(
    tmp_path: Path, shim: ShimBuilder, steps: int, is_known: bool
) -> None:
    for step in range(steps + 1):
        shim.clock(1000 + step, EPOCH + step * 10**10)
    assert shim_gpu_clocks(scanned(tmp_path, shim))[0] == (is_known, 0, is_known)


def test_a_machine_that_is_up_for_centuries_tells_no_time(
    tmp_path: Path, shim: ShimBuilder
) -> None:
    shim.clock(1000, EPOCH)
    shim.clock((1 << 63) - 1, 10**18)
    assert shim_gpu_clocks(scanned(tmp_path, shim))[0] == (True, 0, False)


def test_scattered_correlation_ids_take_no_page_each(tmp_path: Path, shim: ShimBuilder) -> None:
    ids = [place << 15 for place in range(1, 1 << 16)]
    for place in ids:
        shim.call(10, 100, 110, correlation=place)
        if len(shim.cells) > 1 << 20:
            shim.flush()
    shim.write(tmp_path)
    before = resident_bytes()
    scan = ShimScan(str(tmp_path / "shim.bin"))
    assert resident_bytes() - before < 100 << 20
    # The thread and the name of the calls.
    assert scan.records == len(ids) + 2


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_ids_are_known_however_many_a_page_holds(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status()
    ids = [1 + place * 7 % 5000 for place in range(5000)]
    for place in ids:
        shim.call(10, 100, 110, correlation=place)
        shim.activity(120, 130, "k", correlation=place)
    shim.activity(140, 150, "k", correlation=6000)
    shim.call(10, 160, 170, correlation=6001)
    reader = read(scanned(tmp_path, shim))
    assert (reader.unmatched(), reader.unmatched_calls()) == ({0: (1, 140)}, {0: (1, 160)})
