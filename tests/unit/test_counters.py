"""Readings from the spool to the table counter, with what was lost of them and why."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from finalising import report_nothing
from rlscope_analysis.schema import create_tables
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.sentences import coverage_sentence
from rlscope_trace.ingest.store.counters import Counters, insert_counters
from rlscope_trace.ingest.writer.trace_writer import TraceWriter
from rlscope_trace.spool.counter_file import CounterFile, CounterLines, read_counter_file
from rlscope_trace.spool.directory import open_spool
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

END_NS = 1000
DEVICES: list[object] = [
    {"interval_ms": 100, "driver": "580.1"},
    {"uuid": "GPU-a", "index": 0, "name": "H200"},
    {"uuid": "GPU-b", "index": 1, "name": "H200"},
]


class Stored:
    """The tables that a spool with these lines makes."""

    def __init__(
        self, directory: Path, lines: Sequence[object] | None, *, nvml: bool | None = True
    ) -> None:
        spool = SpoolBuilder()
        spool.thread(1, ts_ns=100, tid=10)
        session = {"host": "box"} | ({} if nvml is None else {"nvml": nvml})
        spool.write(directory, end_ns=END_NS, session=session)
        if lines is not None:
            file = CounterFile(directory / "counters.jsonl")
            for line in lines:
                if isinstance(line, bytes):
                    with (directory / "counters.jsonl").open("ab") as damaged:
                        damaged.write(line)
                    continue
                file.write([line], ts_ns=1, readings=1)
            file.close()
        with duckdb.connect() as connection:
            create_tables(connection)
            trace = TraceWriter(connection, directory, report_nothing)
            self.written: Counters = insert_counters(trace, open_spool(directory))
            self.rows = connection.execute("FROM counter ORDER BY ts_ns, uuid, name").fetchall()
            found = self.written.coverage
            self.coverage = (
                []
                if found is None
                else [(found.measured, coverage_sentence(found.facts, measured=found.measured))]
            )

    def losses(self) -> list[tuple[Any, ...]]:
        return [(loss.kind, loss.code, loss.count) for loss in self.written.losses]


def test_readings_become_rows(tmp_path: Path) -> None:
    lines = [
        *DEVICES, [0, 200, {"power": 70.5}], [1, 210, {"power": 71, "sm_clock": 1980}],
        [0, END_NS, {"power": 72}], [0, END_NS + 1, {"power": 73}], {"ended": True},
    ]  # fmt: skip
    stored = Stored(tmp_path / "spool", lines)
    # What came after the end of the trace is not in it.
    assert stored.rows == [
        (200, "box", "GPU-a", 0, "power", 70.5),
        (210, "box", "GPU-b", 1, "power", 71.0),
        (210, "box", "GPU-b", 1, "sm_clock", 1980.0),
        (END_NS, "box", "GPU-a", 0, "power", 72.0),
    ]
    assert stored.coverage == [(True, "NVML, every 100 ms")]
    assert stored.losses() == []
    assert json.loads(stored.written.meta["nvml_devices"])[1] == {
        "device_id": 1, "uuid": "GPU-b", "name": "H200",
    }  # fmt: skip


def test_what_was_refused_is_said_once_for_all_devices(tmp_path: Path) -> None:
    lines = [
        *DEVICES, [0, 200, {"power": 70.5}],
        *(
            {"device": device, "not_measured": name, "reason": "Not Supported"}
            for device in (0, 1) for name in ("sm_activity", "energy")
        ),
        {"device": 0, "not_measured": "power", "reason": "GPU is lost"},
    ]  # fmt: skip
    assert Stored(tmp_path / "spool", lines).coverage == [
        (
            True,
            "in part: energy, sm_activity of GPU 0, 1: Not Supported;"
            " power of GPU 0: GPU is lost (after some readings)",
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "nvml", "coverage"),
    [
        (None, None, []),
        (None, False, [(False, "not asked for: --no-nvml")]),
        (None, True, [(False, "their file could not be written")]),
        ([], True, [(False, "NVML had not answered when the recording ended")]),
        ([{"unavailable": {"code": "nvml_unavailable", "detail": "why"}}], True, [(False, "why")]),
        (
            [
                {"unavailable": {"code": "nvml_gpu_refused", "count": gpu, "detail": "lost"}}
                for gpu in (0, 1, 1)
            ],
            True, [(False, "GPU 0: lost; GPU 1: lost")],
        ),
        (
            [{"unavailable": {"code": "no_nvidia_driver", "subject": "libnvidia-ml.so.1"}}], True,
            [
                (
                    False,
                    "nothing to measure: no NVIDIA driver (libnvidia-ml.so.1 cannot be loaded)",
                )
            ],
        ),
        # As a spool of an earlier version has it.
        (
            [{"unavailable": {"code": "no_gpu", "detail": "no NVIDIA driver"}}], True,
            [(False, "nothing to measure: no NVIDIA driver")],
        ),
        (
            [*DEVICES, {"device": 0, "not_measured": "power", "reason": "Not Supported"}],
            True, [(False, "Not Supported")],
        ),
    ],
)  # fmt: skip
def test_what_is_not_measured_says_why(
    tmp_path: Path,
    lines: list[object] | None,
    nvml: bool | None,
    coverage: list[tuple[object, ...]],
) -> None:
    stored = Stored(tmp_path / "spool", lines, nvml=nvml)
    assert (stored.rows, stored.coverage) == ([], coverage)


@pytest.mark.parametrize(
    "line",
    [
        b'[0,Infinity,{"power":1}]', b'[0,1e999,{"power":1}]', b'[0,-5,{"power":1}]',
        b'[0,9223372036854775808,{"power":1}]', b'[-1,200,{"power":1}]', b'[true,200,{"power":1}]',
        b'[0,200,{"power":1' + b"0" * 400 + b"}]", b'[0,200,{"\\ud800":1}]', b"[" * 100_000,
        b'{"device":7,"not_measured":"power","reason":"no"}',
        b'{"device":0,"not_measured":["power"],"reason":"no"}',
        b'{"uuid":["GPU-c"],"index":0,"name":"H200"}', b'{"uuid":"\\ud800","index":0,"name":""}',
        b'{"uuid":"GPU-c","index":4294967296,"name":"H200"}',
        b'{"interval_ms":Infinity,"driver":"580.1"}', b'{"unavailable":{"a":1}}',
        b'{"format":1,"lost":[1e999,null],"failed":[0,null]}',
        b'{"format":1,"lost":["many",null],"failed":[0,null]}',
    ],
    ids=lambda line: line.decode()[:40],
)  # fmt: skip
def test_a_line_of_odd_values_is_damage(tmp_path: Path, line: bytes) -> None:
    stored = Stored(tmp_path / "spool", [*DEVICES, [0, 200, {"power": 70.5}], line + b"\n"])
    assert [row[-1] for row in stored.rows] == [70.5]
    assert ("dropped", "nvml_damaged", 1) in stored.losses()


def test_damage_and_losses_are_counted(tmp_path: Path) -> None:
    stored = Stored(
        tmp_path / "spool",
        [
            *DEVICES, [0, 200, {"power": 70.5}], {"hung": True},
            # As a kill, a damaged disk or another program may leave them.
            b'[5,200,{"power":1}]\n', b'[0,"x",{"power":1}]\n', b"\xff\n", b'[0,201,{"po',
        ],
    )  # fmt: skip
    assert len(stored.rows) == 1
    assert stored.losses() == [
        ("dropped", "nvml_damaged", 4),
        (
            "truncated",
            "nvml_hung",
            None,
        ),
    ]


class FullDisk:
    """Takes nothing beyond the first bytes of a file, as long as it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_full: bool = True) -> None:
        self.is_full = is_full
        self.limit = 512
        write = os.pwrite

        def pwrite(file: int, data: bytes, at: int) -> int:
            if self.is_full and at + len(data) > self.limit:
                raise OSError(errno.ENOSPC, "full")
            return write(file, data, at)

        monkeypatch.setattr(os, "pwrite", pwrite)


def test_a_file_that_cannot_be_begun_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "counters.jsonl"
    FullDisk(monkeypatch).limit = 0
    before = list(Path("/proc/self/fd").iterdir())
    with pytest.raises(OSError, match="full"):
        CounterFile(path)
    assert not path.exists()
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)


def test_what_a_full_disk_does_not_take_comes_later_but_for_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "counters.jsonl"
    disk = FullDisk(monkeypatch)
    file = CounterFile(path)
    file.write(DEVICES, ts_ns=100)
    file.write([[0, 200, {"power": 1}]], ts_ns=200, readings=1)
    disk.is_full = False
    file.write([[1, 300, {"power": 2}]], ts_ns=300, readings=1)
    disk.is_full = True
    file.is_hung = True
    # As long as a letter gets: two halves of six.
    file.unavailable = [Fact("nvml_unavailable", detail="gone" + "\U0001f600" * 99)]
    file.update_header()
    file.close()
    lines = CounterLines()
    assert list(read_counter_file(path, lines)) == [(1, 300, "power", 2.0)]
    assert [device.uuid for device in lines.devices] == ["GPU-a", "GPU-b"]
    assert (lines.lost.count, lines.lost.first_ns, lines.damaged) == (1, 200, 0)
    assert (lines.is_hung, lines.is_ended) == (True, False)
    assert [str(fact.detail)[:5] for fact in lines.unavailable] == ["gone\U0001f600"]


def test_the_header_tells_what_did_not_get_there(tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    stored = Stored(directory, DEVICES)
    assert stored.losses() == []
    other = tmp_path / "other"
    other.mkdir()
    file = CounterFile(other / "counters.jsonl")
    file.lost.add(3, 500)
    file.lost.add(2, 600)
    file.failed.add(1, 700)
    file.update_header()
    file.write([*DEVICES, [0, 800, {"power": 1}]], ts_ns=800, readings=1)
    file.close()
    (directory / "counters.jsonl").write_bytes((other / "counters.jsonl").read_bytes())
    with duckdb.connect() as connection:
        create_tables(connection)
        written = insert_counters(
            TraceWriter(connection, directory, report_nothing), open_spool(directory)
        )
    assert [(loss.code, loss.count, loss.first_ns) for loss in written.losses] == [
        ("nvml_disk_full", 5, 500),
        ("nvml_failed", 1, 700),
    ]
