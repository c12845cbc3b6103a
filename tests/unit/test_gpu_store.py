"""Records of the GPU become rows: whose, on the clock of the trace, named as imports name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from rlscope_analysis.derive import complete
from rlscope_trace.store.finalise import FinaliseReport, finalise
from rlscope_trace.store.spool import open_spool
from shim_builder import (
    DRIVER,
    GRAPH,
    MEMCPY,
    MEMSET,
    SYNC,
    ShimBuilder,
)
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


def saved(folder: Path, shim: ShimBuilder, *, version: int = 2) -> tuple[Path, FinaliseReport]:
    shim.write(folder, version=version)
    output = folder.with_name("trace.duckdb")
    report = finalise(
        open_spool(folder), output, overwrite=True, complete=complete, progress=lambda *_: None
    )
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
