"""What a program tells without end costs no more than what it wrote: rows, memory and time."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import duckdb
import pytest

from finalising import finalise
from rlscope_analysis.derive import complete
from rlscope_trace._ingest import ShimScan
from rlscope_trace.ingest.store.operation_paths import MAX_DEPTH
from rlscope_trace.spool.directory import open_spool
from shim_builder import CELLS, RANGE, STRING, ShimBuilder
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.ingest.writer.trace_writer import TraceReport

BEGIN, FINISH = 100, 10**12
RECORDS = 60_000
BUDGET_MB = 300
SAVE = """
    import sys
    from pathlib import Path
    from rlscope_analysis.derive import complete
    from rlscope_trace.ingest.store.finalise import finalise
    from rlscope_trace.spool.directory import open_spool
    made = finalise(
        open_spool(Path(sys.argv[1])), Path(sys.argv[2]), overwrite=False,
        progress=lambda *_: None,
    )
    with made as trace:
        complete(trace.con)
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


def shim_of(pid: int = 10) -> ShimBuilder:
    made = ShimBuilder()
    made.source(pid=pid)
    made.thread(tid=pid, ts_ns=BEGIN)
    made.flush()
    return made


def kernel_half(folder: Path, *, threads: int = 1) -> Path:
    spool = SpoolBuilder()
    for thread_id in range(1, threads + 1):
        spool.thread(thread_id, ts_ns=BEGIN, tid=9 + thread_id, tgid=10)
        spool.cycle(thread_id, off_ns=BEGIN, in_ns=BEGIN + 10, out_ns=FINISH - 50)
        spool.close(thread_id, off_ns=FINISH - 50)
    return spool.write(folder, end_ns=FINISH)


def saved(folder: Path, shim: ShimBuilder) -> TraceReport:
    shim.write(folder)
    return finalise(open_spool(folder), folder.with_suffix(".duckdb"), derive=complete)


def peak_mb(folder: Path, shim: ShimBuilder) -> float:
    """Save in a process of its own; return its largest size."""
    shim.write(folder)
    command = [sys.executable, "-c", textwrap.dedent(SAVE), folder, folder.with_suffix(".duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return int(done.stdout) / 1024


def losses(report: TraceReport) -> dict[str, int | None]:
    return {loss.code: loss.count for loss in report.losses}


def event(number: int, start_ns: int, end_ns: int, *, depth: int = 0) -> bytes:
    first = (RANGE, depth, 0, 0, start_ns, end_ns, number, 0, 0, 0, int(depth == 0), 0)
    return struct.pack("<HBBIQQQQQIIQ", *first)


def text(number: int, words: str) -> bytes:
    data = words.encode()
    cells = struct.pack("<HHIQ", STRING, len(data), 0, number) + data
    return cells.ljust(-(-len(cells) // 64) * 64, b"\0")


@pytest.mark.slow
@pytest.mark.parametrize(("count", "letters"), [(100_000, 10), (40_000, 1024)])
def test_many_names_stay_within_the_memory_of_the_recorder(
    tmp_path: Path, count: int, letters: int
) -> None:
    shim = shim_of()
    for number in range(1, count + 1):
        shim.cells += text(number, f"step {number}".ljust(letters, "x")[:1024])
        shim.cells += event(number, BEGIN + 10 * number, BEGIN + 10 * number + 5)
        if len(shim.cells) > 1_000_000:
            shim.flush()
    folder = kernel_half(tmp_path / "spool")
    assert peak_mb(folder, shim) < BUDGET_MB
    with duckdb.connect(str(folder.with_suffix(".duckdb")), read_only=True) as con:
        query = "SELECT count(*), count(DISTINCT name), max(name = 'step #') FROM operation"
        ((operations, names, has_folded),) = con.execute(query).fetchall()
        reported = "SELECT count FROM trace_stat WHERE code = 'operation_names_folded'"
        ((folded,),) = con.execute(reported).fetchall()
    assert operations == count
    assert names - 1 + folded == count
    assert has_folded


def test_names_without_a_text_are_bounded_too(tmp_path: Path) -> None:
    shim = shim_of()
    for number in range(1, RECORDS + 1):
        shim.cells += event(number, BEGIN + 10 * number, BEGIN + 10 * number + 5)
        if len(shim.cells) > 1_000_000:
            shim.flush()
    report = saved(kernel_half(tmp_path / "spool"), shim)
    assert report.rows["operation_coded"] == RECORDS
    assert report.rows["operation_path"] < 40_000
    assert losses(report)["operation_unnamed"] == RECORDS - 36864


def test_endless_nesting_is_cut(tmp_path: Path) -> None:
    count = 2000
    shim = shim_of()
    for number in range(count, 0, -1):
        start_ns, end_ns = BEGIN + number, FINISH - BEGIN - number
        shim.cells += text(number, f"level {number}") + event(number, start_ns, end_ns, depth=64)
    folder = kernel_half(tmp_path / "spool")
    report = saved(folder, shim)
    assert report.rows["operation_coded"] == count
    with duckdb.connect(str(folder.with_suffix(".duckdb")), read_only=True) as con:
        assert con.execute("SELECT max(depth) < ? FROM operation", [MAX_DEPTH]).fetchall() == [
            (True,)
        ]
    assert losses(report)["operation_paths_too_many"]


def test_many_threads_of_one_range_each(tmp_path: Path) -> None:
    threads = 3000
    shim = shim_of()
    for place in range(threads):
        shim.slot = place % 100
        shim.thread(tid=10 + place, ts_ns=BEGIN)
        shim.range("step", BEGIN + 100 + place, BEGIN + 200 + place, flags=1)
        shim.flush()
    folder = kernel_half(tmp_path / "spool", threads=threads)
    report = saved(folder, shim)
    assert (report.rows["operation_coded"], report.rows["operation_path"]) == (threads, 1)
    with duckdb.connect(str(folder.with_suffix(".duckdb")), read_only=True) as con:
        query = "SELECT count(*) FROM operation WHERE start_ns = ? + thread_id"
        assert con.execute(query, [BEGIN + 99]).fetchall() == [(threads,)]
    assert not [source for source in losses(report) if "operation" in source]


@pytest.mark.slow
@pytest.mark.parametrize("times", ["any", "plausible"])
def test_random_records_cost_what_they_take_to_read(tmp_path: Path, times: str) -> None:
    source = random.Random(times)
    shim = shim_of()
    for _ in range(RECORDS // 1000):
        cells = bytearray()
        for _ in range(1000):
            cell = bytearray(source.randbytes(64))
            cell[:2] = source.randrange(1, 18).to_bytes(2, "little")
            if times == "plausible":
                start_ns = source.randrange(BEGIN, FINISH)
                end_ns = start_ns + source.randrange(-1000, FINISH // 10)
                struct.pack_into("<QQ", cell, 8, start_ns, end_ns)
            cells += cell
        shim.block(CELLS, bytes(cells))
    command_mb = peak_mb(kernel_half(tmp_path / "spool"), shim)
    assert command_mb < BUDGET_MB
    with duckdb.connect(str(tmp_path / "spool.duckdb"), read_only=True) as con:
        ((kinds, longest),) = con.execute(
            "SELECT count(*), max(length(code) + coalesce(length(detail), 0)) FROM trace_stat"
        ).fetchall()
        query = "SELECT count FROM trace_stat WHERE code = 'operations_damaged'"
        ((damaged,),) = con.execute(query).fetchall()
    assert kinds < 30
    assert longest < 200
    assert RECORDS // 10 < damaged <= RECORDS


def test_open_phases_without_end_are_merged_in_bounded_time(tmp_path: Path) -> None:
    shim = shim_of()
    for number in range(1, 3001):
        auto = {"domain": "rlscope"} if number % 2 else {}
        name = "learn" if number % 2 else "step"
        shim.range(name, BEGIN + 3 * number, FINISH - 7 * number, depth=64, **auto)
    report = saved(kernel_half(tmp_path / "spool"), shim)
    assert report.rows["operation_coded"] >= 1500


def test_a_text_of_a_hostile_program_is_one_of_few(tmp_path: Path) -> None:
    shim = shim_of()
    for number in range(1, 50_001):
        shim.cells += text(number, f"a{number} of {number}x-{number}")
        if len(shim.cells) > 1_000_000:
            shim.flush()
    shim.cells += event(50_000, BEGIN + 1, BEGIN + 5)
    shim.flush()
    folder = tmp_path / "spool"
    folder.mkdir()
    shim.write(folder)
    scan = ShimScan(str(folder / "shim.bin"))
    assert scan.names() == [("a# of #-#", "", "", 0)]
    assert scan.losses()["folded_names"] == 50_000 - 32_768
