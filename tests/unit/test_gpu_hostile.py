"""GPU records that a program made up to keep the decoder busy, or to mislead it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_spool import EPOCH, cupti_thread
from rlscope_analysis.schema.vocabulary import CUDA_CALL_KINDS
from rlscope_trace._capture import ShimGpuReader, ShimScan
from rlscope_trace.store.cuda_names import cuda_call_kind
from shim_builder import MEMSET, SYNC, ShimBuilder

if TYPE_CHECKING:
    from pathlib import Path

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
