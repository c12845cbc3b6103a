"""What is known of the GPU activity of each process, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_spool import (
    BEGIN,
    FINISH,
    cupti_thread,
    kernel_half,
    losses,
    rows,
    saved,
    verdicts,
)
from shim_builder import (
    CALL_FAILED,
    HELD,
    NOT_ASKED,
    OFF,
    ON,
    REFUSED,
    YIELDED,
    ShimBuilder,
)  # fmt: skip
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shim() -> ShimBuilder:
    return cupti_thread()


def test_statuses_devices_and_streams(tmp_path: Path, shim: ShimBuilder) -> None:
    for _ in range(2):  # a second reader is told again
        shim.status(ts_ns=300, refused=1 << 49)
        shim.device(0, "NVIDIA H200")
    shim.device(1, "NVIDIA H200 MIG 1g.18gb", uuid=bytes([255] * 16), is_mig=1)
    shim.named(1, None, "training")
    # A stream before its context; a name, and then CUPTI tells of the stream without one.
    shim.named(1, 7, device=2**32 - 1)
    shim.named(1, 7, "draft")
    shim.named(1, 7, "copies")
    shim.named(1, 7)
    shim.named(1, 7, device=2**32 - 1)
    shim.named(2**32 - 1, None, "left", device=0)
    shim.named(2**32 - 1, None, "right", device=1)
    shim.overhead(1, 400, 500, tid=10)
    shim.overhead(999, 400, 500)
    shim.memory(410, 4096, 0x7F00, release=False, correlation=3)
    shim.memory(420, 4096, 0x7F00, release=True, memory_kind=2)
    path, report = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT * FROM gpu_status") == [
        (
            1, 300, "on", None, None, None, "/lib/libcupti.so.13", 130001, 13000,
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
        (1, 0, None, None, "left"),
        (1, 1, None, None, "right"),
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
        "gpu_reported_twice": ("unmatched", 2),
    }


def test_numbers_that_no_column_holds_are_not_known(tmp_path: Path, shim: ShimBuilder) -> None:
    big, bigger = 2**32 - 1, 2**64 - 1
    shim.status(ts_ns=bigger, api=big, driver=2**31, code=big)
    shim.device(
        0, "GPU", memory_bytes=bigger, multiprocessors=big, memory_clock_khz=big,
        memory_bus_bits=big,
    )  # fmt: skip
    shim.device(2**31, "GPU", uuid=bytes([1] * 16))
    shim.named(1, 7, "stream", device=big)
    shim.lost(1, bigger, ts_ns=bigger)
    shim.activity(400, 500, "k", device=2**31)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    numbers = "SELECT ts_ns, code, api_version, driver_version FROM gpu_status"
    assert rows(path, numbers) == [(None, None, None, None)]
    sizes = "SELECT device_id, memory_bytes, multiprocessors, memory_bandwidth FROM gpu_device"
    assert rows(path, sizes) == [(0, None, None, None)]
    assert rows(path, "SELECT device_id, name FROM gpu_stream") == [(None, "stream")]
    assert rows(path, "SELECT device_id FROM gpu_activity") == [(None,)]


def test_a_gpu_has_one_number_whatever_a_process_calls_it(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    spool = SpoolBuilder()
    for number, pid in enumerate((10, 20), 1):
        spool.thread(number, ts_ns=BEGIN, tid=pid, tgid=pid)
        spool.close(number, off_ns=FINISH)
    spool.write(folder, end_ns=FINISH, session={"host": "box"})
    uuids = {10: [b"B" * 16], 20: [b"A" * 16, b"B" * 16]}
    shim = ShimBuilder()
    for pid, visible in uuids.items():
        shim.source(pid=pid)
        shim.thread(tid=pid, ts_ns=BEGIN)
        shim.status()
        for ordinal, uuid in enumerate(visible):
            shim.device(ordinal, "H200", uuid=uuid)
            shim.activity(300 + pid + ordinal, 400, "k", device=ordinal)
            shim.memory(300 + pid + ordinal, 8, 0x7F00, release=False, device=ordinal)
            shim.named(1, ordinal, device=ordinal)
    path, _ = saved(folder, shim)
    found = rows(path, "SELECT device_id, uuid[5] FROM gpu_device ORDER BY 1")
    assert found == [(0, "4"), (1, "4")]
    assert rows(path, "SELECT uuid[6] FROM gpu_device ORDER BY device_id") == [("1",), ("2",)]
    for table in ("gpu_activity", "gpu_memory", "gpu_stream"):
        by_process = f"SELECT process_id, device_id FROM {table} ORDER BY ALL"
        assert rows(path, by_process) == [(1, 1), (2, 0), (2, 1)]


def test_cupti_that_fails_meanwhile_is_measured_in_part(tmp_path: Path, shim: ShimBuilder) -> None:
    call = "cuptiActivityFlushAll"
    failed = f"{call} -> 999 UNKNOWN (libcupti.so.13 api 130001): CUPTI does not say why"
    shim.status(ts_ns=200, recorded=(1 << 5) | (1 << 10))
    shim.status(ON, CALL_FAILED, call, code=999, ts_ns=400, recorded=(1 << 5) | (1 << 10))
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    why = f"in part: perhaps nothing from 0.000 s after the start on: {failed}"
    assert verdicts(path)[:2] == [("cuda_call", 1, True, why), ("gpu_activity", 1, True, why)]
    assert rows(path, "SELECT kind, count, first_ns FROM trace_stat") == [("dropped", None, 400)]


@pytest.mark.parametrize("is_reported", [False, True])
def test_a_program_that_came_after_is_not_measured(tmp_path: Path, *, is_reported: bool) -> None:
    folder = tmp_path / "spool"
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=BEGIN, tid=10)
    spool.exec(1, ts_ns=500, tid=10)
    spool.close(1, off_ns=FINISH)
    spool.write(folder, end_ns=FINISH, session={"host": "box"})
    shim = cupti_thread()
    shim.status(ts_ns=200, recorded=1 << 10)
    if is_reported:
        shim.source(pid=10)
        shim.thread(tid=10, ts_ns=600)
        shim.status(OFF, YIELDED, ts_ns=600)
    path, _ = saved(folder, shim)
    (verdict,) = [row for row in verdicts(path) if row[:2] == ("gpu_activity", 1)]
    assert verdict[2:] == (
        True,
        f"in part: it was another program too, of which CUPTI did not tell; {LEFT}"
        if is_reported
        else "in part: not after it replaced its program, 0.000 s after the start",
    )


NO_OTHERS = ("gpu_activity", None, False, "CUDA was not initialised, as far as the recorder heard")
LEFT = "CUPTI is left to another profiler (torch.profiler, nsys): --cupti yield"
GRAPHS = "CUPTI; a CUDA graph is one activity: its kernels were not recorded one by one"


@pytest.mark.parametrize(
    ("state", "more", "expected"),
    [
        (OFF, {"why": YIELDED}, [(1, False, LEFT)]),
        (OFF, {"why": NOT_ASKED}, [(1, False, "not asked for: --cupti off")]),
        (REFUSED, {"why": 999}, [(1, False, "CUPTI could not be started")]),
        (
            REFUSED,
            {"why": HELD, "code": 39},
            [(1, False, "another profiler (torch.profiler, nsys) holds CUPTI")],
        ),
        (ON, {}, [(1, True, GRAPHS)]),
        (ON, {"recorded": 1 << 10}, [(1, True, "CUPTI")]),
        (
            ON,
            {"recorded": 1 << 5, "refused": 1 << 10},
            [(1, False, "CUPTI refused concurrent_kernel")],
        ),
        (
            ON,
            {"recorded": 1 << 10, "refused": (1 << 17) | (1 << 38)},
            [(1, True, "in part: CUPTI refused synchronization; CUPTI refused overhead")],
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
    shim.status(state, **more)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    found = [row for row in verdicts(path) if row[0] == "gpu_activity"]
    assert found == [("gpu_activity", *row) for row in expected]


def test_processes_that_said_nothing_are_not_measured(tmp_path: Path, shim: ShimBuilder) -> None:
    folder = tmp_path / "spool"
    spool = SpoolBuilder()
    for number, pid in enumerate((10, 20), 1):
        spool.thread(number, ts_ns=BEGIN, tid=pid, tgid=pid)
        spool.close(number, off_ns=FINISH)
    reported = {"measured": False, "fact": {"code": "not_asked_for", "subject": "--cupti off"}}
    spool.write(folder, end_ns=FINISH, session={"host": "box", "gpu": reported})
    shim.status()
    path, _ = saved(folder, shim)
    assert [row[1:] for row in verdicts(path) if row[0] == "gpu_activity"] == [
        (1, True, GRAPHS),
        (None, False, "not asked for: --cupti off"),
    ]


def test_the_last_status_holds(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.status(ts_ns=200)
    shim.status(REFUSED, CALL_FAILED, "cuptiActivityEnable(MARKER)", ts_ns=300, code=57)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim)
    assert rows(path, "SELECT state, reason, subject, code FROM gpu_status") == [
        ("on", None, None, None),
        ("refused", "cupti_failed", "cuptiActivityEnable(MARKER)", 57),
    ]
    # A result of a later CUPTI: its number is all that is known.
    said = "cuptiActivityEnable(MARKER) -> 57 (libcupti.so.13 api 130001)"
    assert ("gpu_activity", 1, False, said) in verdicts(path)


def test_a_process_without_cuda_is_not_measured(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.thread(tid=10, ts_ns=BEGIN)
    shim.range("step", 200, 300)
    path, _ = saved(kernel_half(tmp_path / "spool"), shim, views=True)
    assert rows(path, "SELECT name FROM operation") == [("step",)]
    assert verdicts(path) == [NO_OTHERS]
    busy = "SELECT DISTINCT gpu_busy FROM breakdown"
    assert rows(path, busy) == [(None,)]
