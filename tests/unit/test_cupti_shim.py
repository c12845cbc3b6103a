"""The GPU half of the shim in programs that use the fakes: what it records, and when it starts."""

import struct
from collections import Counter
from pathlib import Path

import pytest

from cuda_fakes import environment, run_calls
from cupti_programs import KINDS, record, run_python, status
from cupti_ring import (
    CALL_FAILED,
    GRAPH,
    HELD,
    KERNEL,
    MEMCPY,
    NAMED,
    NOT_ASKED,
    OFF,
    ON,
    REFUSED,
    YIELDED,
    GpuRecords,
)  # fmt: skip
from rlscope_trace.record import shims

# --- what is recorded ---


def test_each_launch_gives_a_kernel_of_the_same_correlation() -> None:
    records, truth = record("--launches=300", "--copies=2", "--api=runtime")
    kernels = records.activities(KERNEL)
    assert Counter(kernel.name for kernel in kernels) == Counter(
        ("gemm_20us", "relu_3us", "softmax_7us")[index % 3] for index in range(300)
    )
    launches = {call.correlation: call for call in records.calls() if "LaunchKernel" in call.name}
    assert all(launches[kernel.correlation].start_ns < kernel.start_ns for kernel in kernels)
    assert {call.tid for call in records.calls()} == {truth["tid"]}
    # CUPTI calls it cudaLaunchKernel_v7000.
    names = Counter(call.name for call in records.calls() if call.api == 5)
    assert (names["cudaLaunchKernel"], names["cudaMemcpyAsync"], names["cudaMalloc"]) == (300, 4, 2)
    assert records.status()[:4] == (ON, 0, 130001, 13000)
    assert sum(copy.bytes for copy in records.activities(MEMCPY)) == 4 * 4096


@pytest.mark.parametrize("release", ["11.8", "13.0"])
def test_the_calls_are_the_same_whether_or_not_cupti_lets_us_choose(release: str) -> None:
    records, truth = record("--launches=3", "--copies=1", release=release)
    made = {name for name in truth["truth"]["calls"] if not name.startswith("cuInit")}
    # What neither gives the GPU work nor waits for it.
    idle = {"cuCtxSetCurrent", "cuStreamCreate", "cuModuleGetFunction"}
    assert {call.name for call in records.calls()} == made - idle
    assert idle <= made


@pytest.mark.parametrize(("mode", "graphs", "kernels"), [("graph", 3, 0), ("node", 0, 15)])
def test_a_graph_is_one_record_or_one_for_each_node(mode: str, graphs: int, kernels: int) -> None:
    records, _ = record(
        "--launches=0", "--graphs=3", "--nodes=5", RLSCOPE_CUDA_GRAPHS=mode, FAKECUPTI_API="28"
    )
    found = Counter(activity.work for activity in records.activities())
    assert (found[GRAPH], found[KERNEL]) == (graphs, kernels)
    assert records.status().recorded == (KINDS if mode == "graph" else KINDS - {51})


def test_records_that_do_not_fit_into_the_ring_are_counted() -> None:
    records, _ = record("--launches=30000", "--syncs=0")
    reported = len(records.calls()) + len(records.activities(KERNEL))
    dropped = sum(memory.dropped() for memory in records.memories)
    others = len(records.calls()) - sum(call.name == "cuLaunchKernel" for call in records.calls())
    assert dropped > 0
    # A clock or another call may be among those that were dropped.
    assert 60000 <= reported + dropped - others <= 60000 + 20


def test_a_dump_holds_the_buffers_and_their_names(tmp_path: Path) -> None:
    _, truth = record("--launches=30", RLSCOPE_CUPTI_DUMP=str(tmp_path))
    data = (tmp_path / f"buffers.{truth['pid']}").read_bytes()
    names = []
    while data:
        magic, api, _, valid, name_bytes = (
            data[:8], *(int.from_bytes(data[at : at + 4], "little") for at in (8, 12)),
            *(int.from_bytes(data[at : at + 8], "little") for at in (16, 24)),
        )  # fmt: skip
        assert (magic, api) == (b"RSLCUPTI", 130001)
        records, table = data[32 : 32 + valid], data[32 + valid : 32 + valid + name_bytes]
        data = data[32 + valid + name_bytes :]
        while table:
            offset, length = (int.from_bytes(table[at : at + 4], "little") for at in (0, 4))
            assert int.from_bytes(records[offset : offset + 4], "little") == 10
            names.append(table[8 : 8 + length].decode())
            table = table[8 + length :]
    assert Counter(names) == {"gemm_20us": 10, "relu_3us": 10, "softmax_7us": 10}


CONTEXTS = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, stream, last = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
for _ in range(600):
    assert cuda.cuStreamCreate(ctypes.byref(stream), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(last), 0, 0) == 0
assert cuda.cuStreamCreate(ctypes.byref(stream), 0) == 0
"""


def test_many_streams_do_not_crowd_out_the_contexts() -> None:
    records, _ = run_python(CONTEXTS, CUDA_INJECTION64_PATH=str(shims.LIBRARY))
    named = [struct.unpack("<xxHIIIQ40x", cell) for _, _, cell in records.cells(NAMED)]
    streams = [device for is_stream, device, *_ in named if is_stream]
    assert len(streams) >= 601
    assert set(streams) == {0}


# --- whether it is started ---


@pytest.mark.parametrize(("mode", "why"), [("yield", YIELDED), ("off", NOT_ASKED)])
def test_cupti_is_left_alone_where_it_is_not_wanted(mode: str, why: int, tmp_path: Path) -> None:
    reported = status(RLSCOPE_CUPTI=mode, FAKECUPTI_LOG=str(tmp_path / "log"))
    assert (reported.state, reported.library, reported.why) == (OFF, "", why)
    assert not (tmp_path / "log").exists()


def test_a_program_that_nobody_records_is_left_alone(tmp_path: Path) -> None:
    reported = {
        **environment("13.0"),
        "CUDA_INJECTION64_PATH": str(shims.LIBRARY),
        "FAKECUPTI_LOG": str(tmp_path / "log"),
    }
    truth, code = run_calls(environment=reported)
    assert (truth["right"], code) == (True, 0)
    assert not (tmp_path / "log").exists()


def test_a_driver_that_does_not_start_leaves_no_status() -> None:
    with GpuRecords() as records:
        reported = {**environment("13.0"), **records.environment(FAKECUDA_NODEV="1")}
        run_calls(environment=reported)
    assert records.memories == []


def test_a_refused_subscription_changes_nothing_else(tmp_path: Path) -> None:
    log = tmp_path / "log"
    reported = status("12.9", FAKECUPTI_FAIL="cuptiSubscribe:39", FAKECUPTI_LOG=str(log))
    assert (reported.state, reported.code, reported.recorded) == (REFUSED, 39, set())
    # This version has no second way to subscribe, which would tell by whom.
    assert (reported.why, reported.subject, reported.api) == (HELD, "", 28)
    # The clock and the buffers are the process's: they may be that profiler's.
    assert {line.split()[1] for line in log.read_text().splitlines()} == {"cuptiSubscribe"}


@pytest.mark.parametrize(
    ("holder", "calls"),
    [
        ("CUPTI for Kineto", []),
        # It has left meanwhile: what came before is not known, so it is not taken up.
        (None, ["cuptiUnsubscribe"]),
    ],
)
def test_who_holds_cupti_is_named_where_it_tells(
    holder: str | None, calls: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    variables = {} if holder is None else {"FAKECUPTI_HOLDER": holder}
    reported = status(FAKECUPTI_FAIL="cuptiSubscribe:39", FAKECUPTI_LOG=str(log), **variables)
    assert (reported.state, reported.code) == (REFUSED, 39)
    assert (reported.why, reported.subject) == (HELD, holder or "")
    made = [line.split()[1] for line in log.read_text().splitlines()]
    assert made == ["cuptiSubscribe", "cuptiSubscribe_v2", *calls]


def test_without_gpu_work_cupti_is_asked_for_nothing_until_the_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    records, _ = record("--idle", FAKECUPTI_LOG=str(log))
    made = [tuple(line.split()[1:3]) for line in log.read_text().splitlines()]
    assert [flag for name, flag in made if name == "cuptiActivityFlushAll"] == ["1"]
    assert made[-1] == ("cuptiActivityFlushAll", "1")
    assert (records.calls(), records.activities()) == ([], [])


def test_refused_kernels_are_refused_activity(tmp_path: Path) -> None:
    log = tmp_path / "log"
    reported = status(FAKECUPTI_FAIL="cuptiActivityEnable#10:27", FAKECUPTI_LOG=str(log))
    assert (reported.state, reported.code, reported.recorded, reported.refused) == (
        REFUSED,
        27,
        set(),
        {10},
    )
    refused = "cuptiActivityEnable(CONCURRENT_KERNEL)"
    assert (reported.why, reported.subject) == (CALL_FAILED, refused)
    calls = [tuple(line.split()[1:3]) for line in log.read_text().splitlines()]
    enabled = {kind for call, kind in calls if call == "cuptiActivityEnable"} - {"10"}
    assert {kind for call, kind in calls if call == "cuptiActivityDisable"} == enabled
    assert calls[-1] == ("cuptiUnsubscribe", "0")
    # The clock and the ids of threads are those of the process again.
    assert calls.count(("cuptiActivityRegisterTimestampCallback", "0")) == 2
    assert [kind for call, kind in calls if call == "cuptiSetThreadIdType"] == ["1", "0"]


def test_a_refused_kind_is_named_and_the_rest_recorded() -> None:
    reported = status(FAKECUPTI_FAIL="cuptiActivityEnable#22:27")
    assert (reported.state, reported.code, reported.refused, reported.recorded) == (
        ON,
        27,
        {22},
        KINDS - {22},
    )
    assert (reported.why, reported.subject) == (CALL_FAILED, "cuptiActivityEnable(MEMCPY2)")
