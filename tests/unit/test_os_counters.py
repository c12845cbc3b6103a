"""What the OS kernel counts, from its files to the table os_counter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from finalising import report_nothing
from rlscope_analysis.schema import create_tables
from rlscope_trace.ingest.store.os_counters import OsCounters as Written
from rlscope_trace.ingest.store.os_counters import insert_os_counters
from rlscope_trace.ingest.store.processes import Life
from rlscope_trace.ingest.writer.trace_writer import TraceWriter
from rlscope_trace.record import cgroups, os_counters
from rlscope_trace.spool.counter_file import CounterFile
from rlscope_trace.spool.directory import open_spool
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

END_NS = 1000
_V1 = "30 25 0:26 / {mount} rw - cgroup cgroup rw,cpu,cpuacct\n"
_V2 = "30 25 0:26 {root} {mount} rw - cgroup2 cgroup rw\n"


class Machine:
    """A /proc and a hierarchy of cgroups, as files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proc, self.mount = folder / "proc", folder / "cgroup"
        self.mount.mkdir()
        (self.proc / "self").mkdir(parents=True)
        monkeypatch.setattr(cgroups, "PROC", self.proc)
        cgroups._folders_of.cache_clear()

    def process(self, pid: int, membership: str, mounts: str, *, root: str = "/") -> None:
        (self.proc / str(pid)).mkdir()
        (self.proc / str(pid) / "cgroup").write_text(membership)
        (self.proc / "self/mountinfo").write_text(mounts.format(mount=self.mount, root=root))

    def folder(self, path: str, **files: str) -> Path:
        folder = self.mount / path
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_all_cgroups_around_a_process_that_have_a_quota_count(machine: Machine) -> None:
    outer = machine.folder("pod", cpu__max="200000 100000\n")
    machine.folder("pod/free", cpu__max="max 100000\n")
    inner = machine.folder("pod/free/job", cpu__max="50000 100000\n")
    machine.process(7, "0::/pod/free/job\n", _V2)
    assert cgroups.quota_folders(7) == [inner, outer]


def test_a_quota_of_version_1(machine: Machine) -> None:
    inner = machine.folder("job", cpu__cfs_quota_us="50000\n")
    (machine.mount / "cpu.cfs_quota_us").write_text("-1\n")
    machine.process(7, "4:memory:/other\n3:cpuacct,cpu:/job\n0::/\n", _V1)
    assert cgroups.quota_folders(7) == [inner]


def test_of_a_container_the_folders_that_it_sees(machine: Machine) -> None:
    """Only its own part of the hierarchy is mounted."""
    (machine.mount / "cpu.max").write_text("50000 100000")
    machine.process(7, "0::/docker/abc\n", _V2, root="/docker/abc")
    assert cgroups.quota_folders(7) == [machine.mount]


@pytest.mark.parametrize("path", ["/../other", "/docker/other"])
def test_a_cgroup_that_is_not_mounted_here_is_not_measured(machine: Machine, path: str) -> None:
    (machine.mount / "cpu.max").write_text("50000 100000")
    machine.process(7, f"0::{path}\n", _V2, root="/docker/abc")
    assert cgroups.quota_folders(7) == []
    assert cgroups.quota_folders(8) == []


def test_what_files_of_the_os_kernel_say(tmp_path: Path) -> None:
    pressure = tmp_path / "memory"
    pressure.write_text(
        "some avg10=0.00 avg60=1.00 avg300=0.00 total=17\nfull avg10=0.00 total=5\nnew total=x\n"
    )
    assert os_counters.memory_pressure(pressure) == {
        "memory_stall_some": 17_000, "memory_stall_full": 5_000,
    }  # fmt: skip
    assert os_counters.memory_pressure(tmp_path / "missing") == {}


@pytest.mark.parametrize(
    ("text", "throttled_ns"),
    [("nr_periods 9\nnr_throttled 4\nthrottled_time 5000\n", 5000),
     ("usage_usec 3\nnr_periods 9\nnr_throttled 4\nthrottled_usec 5\n", 5000)],
)  # fmt: skip
def test_time_without_quota_is_nanoseconds_in_both_versions(
    machine: Machine, tmp_path: Path, text: str, throttled_ns: int
) -> None:
    folder = machine.folder("job", cpu__max="1 2", cpu__stat=text)
    machine.process(7, "0::/job\n", _V2)
    spool = tmp_path / "os_counters.jsonl"
    counters = os_counters.OsCounters(spool, [7], lambda: 5)
    counters.read_when_due([])
    counters.stop([])
    expected = (
        f'[5,"cgroup","{folder}",{{"quota_periods":9,"quota_periods_throttled":4,'
        f'"quota_throttled":{throttled_ns}}}]'
    )
    assert spool.read_text().splitlines().count(expected) == 2


def test_of_many_processes_each_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def faults(pid: int) -> dict[str, int]:
        read.append(pid)
        return {}

    monkeypatch.setattr(os_counters, "page_faults", faults)
    clock = iter(range(0, 10**12, os_counters.INTERVAL_NS // 10))
    counters = os_counters.OsCounters(tmp_path / "x", [], lambda: next(clock))
    while len(read) < 12:
        counters.read_when_due([1, 2, 3, 4, 5, 6])
    assert read == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]


def store(folder: Path, *lines: object) -> tuple[Written, list[tuple[object, ...]]]:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    spool.write(folder, end_ns=END_NS, session={"host": "box"})
    if lines:
        file = CounterFile(folder / "os_counters.jsonl")
        for line in lines:
            file.write([line], ts_ns=1, readings=1)
        file.close()
    lives = [Life(1, 10, 0, 100, ()), Life(2, 10, 0, 500, ())]
    with duckdb.connect() as connection:
        create_tables(connection)
        trace = TraceWriter(connection, folder, report_nothing)
        written = insert_os_counters(trace, open_spool(folder), lives)
        return written, connection.execute("FROM os_counter ORDER BY ts_ns").fetchall()


def test_readings_become_rows_of_the_process_that_had_the_pid(tmp_path: Path) -> None:
    written, rows = store(
        tmp_path / "spool",
        [200, "process", 10, {"major_faults": 1}], [600, "process", 10, {"major_faults": 2}],
        [700, "process", 99, {"major_faults": 3}], [800, "cgroup", "/c", {"quota_periods": 4}],
        [END_NS + 1, "system", None, {"swapped_in": 5}],
        [900, "planet", None, {"swapped_in": 6}], [900, "system", None, {"swapped_in": 0.5}],
    )  # fmt: skip
    assert rows == [
        (200, "box", "process", 1, None, "major_faults", 1),
        (600, "box", "process", 2, None, "major_faults", 2),
        (800, "box", "cgroup", None, "/c", "quota_periods", 4),
    ]
    assert written.coverage.measured
    assert [(loss.code, loss.count) for loss in written.losses] == [("os_counters_damaged", 2)]


def test_a_spool_without_readings_has_measured_none(tmp_path: Path) -> None:
    written, rows = store(tmp_path / "spool")
    assert rows == []
    assert not written.coverage.measured
