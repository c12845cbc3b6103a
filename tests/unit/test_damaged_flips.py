"""Whatever becomes of the files of a spool: a trace that says what it lacks, or one error."""

from __future__ import annotations

import random
import resource
import shutil
import time
from typing import TYPE_CHECKING

import duckdb
import pytest

import damaged_spool
from conftest import in_matrix
from damaged_spool import FILES, build, damage
from finalising import finalise
from rlscope_analysis.derive import complete
from rlscope_analysis.summary.gpu import gpu_summary
from rlscope_trace._ingest import ShimGpuReader, ShimRangeReader, ShimScan, shim_gpu_names
from rlscope_trace.errors import SpoolError
from rlscope_trace.spool.directory import open_spool

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.ingest.writer.trace_writer import TraceReport

PER_FILE = 6
MOST_GROWN_KB = 512 << 10


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("damaged") / "sound")


def saved(folder: Path) -> TraceReport:
    def finish(con: duckdb.DuckDBPyConnection) -> None:
        complete(con)
        gpu_summary(lambda query: con.execute(query).fetchall())

    return finalise(
        open_spool(folder), folder.with_suffix(".duckdb"), overwrite=True, derive=finish,
    )  # fmt: skip


def grown_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_the_sound_spool_has_everything(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "spool")
    rows = saved(tmp_path / "spool").rows
    empty = {table for table, count in rows.items() if not count}
    assert empty == set()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *in_matrix(*range(1, PER_FILE))])
@pytest.mark.parametrize("name", FILES)
def test_any_damage_is_survived(sound: Path, tmp_path: Path, name: str, seed: int) -> None:
    folder = tmp_path / "spool"
    shutil.copytree(sound, folder)
    source = random.Random(f"{name} {seed}")
    path = folder / name
    path.write_bytes(damage(path.read_bytes(), source, is_text="json" in name))
    before_kb, before_s = grown_kb(), time.process_time()
    report, error = None, None
    try:
        report = saved(folder)
    except SpoolError as raised:
        error = raised
    if error is not None:
        # Only what makes it no spool at all.
        assert name == "records.bin"
        assert error.hint
        assert "\n" not in str(error)
    if report is not None:
        assert not folder.exists()
        assert len(report.losses) < 60
        with duckdb.connect(str(folder.with_suffix(".duckdb")), read_only=True) as con:
            reported = con.execute("SELECT count(*) FROM trace_stat").fetchall()
        assert reported == [(len(report.losses),)]
    assert grown_kb() - before_kb < MOST_GROWN_KB
    # CPU time: it is well below a second, and a hang would be no end.
    assert time.process_time() - before_s < 30


def test_any_damaged_shim_file_is_read(sound: Path, tmp_path: Path) -> None:
    data = (sound / "shim.bin").read_bytes()
    path = tmp_path / "shim.bin"
    for seed in range(300):
        path.write_bytes(damage(data, random.Random(seed), is_text=False))
        scan = ShimScan(str(path))
        names = scan.names()
        ranges = ShimRangeReader(scan, list(range(len(scan.incarnations()))))
        while (part := ranges.next(100)) is not None:
            assert part["key"].max() < len(names)
        gpu = ShimGpuReader(scan)
        while (read := gpu.next(100)) is not None:
            assert read[0]["name"].max(initial=-1) < len(shim_gpu_names(scan))


def test_a_huge_thread_id_costs_no_memory(sound: Path, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    shutil.copytree(sound, folder)
    records = damaged_spool.SpoolBuilder()
    records.cycle(2**31 - 2, off_ns=2 * 10**9, in_ns=2 * 10**9 + 5, out_ns=2 * 10**9 + 9)
    with (folder / "records.bin").open("ab") as file:
        file.write(b"".join(records.frames))
    before_kb = grown_kb()
    report = saved(folder)
    assert report.rows["thread"] == 5
    assert grown_kb() - before_kb < MOST_GROWN_KB
