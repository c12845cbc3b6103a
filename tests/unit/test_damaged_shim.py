"""Records of a shim that no program makes: each is counted and left out, and costs nothing else."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import duckdb
import pytest

from finalising import finalise
from rlscope_analysis.derive import complete
from rlscope_trace.spool.directory import open_spool
from shim_builder import END, MARK, START, THREAD_OPEN, ShimBuilder
from spool_builder import SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

BEGIN, FINISH = 100, 1000
DAMAGED = "operations_damaged"
TOO_LATE = "operation_too_late"
CENTURY = 100 * 365 * 86400 * 10**9
PER_RANGE = "SELECT start_ns, end_ns, name FROM operation ORDER BY ALL"


@pytest.fixture
def shim() -> ShimBuilder:
    made = ShimBuilder()
    made.source(pid=10)
    made.thread(tid=10, ts_ns=BEGIN)
    made.range("sound", 200, 300, flags=1)
    return made


def saved(folder: Path, shim: ShimBuilder, *, end_ns: int = FINISH) -> Path:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=BEGIN, tid=10)
    spool.cycle(1, off_ns=BEGIN, wake_ns=BEGIN, in_ns=BEGIN + 10, out_ns=FINISH - 50)
    spool.close(1, off_ns=FINISH - 50)
    spool.write(folder / "spool", end_ns=end_ns)
    shim.write(folder / "spool")
    output = folder / "trace.duckdb"
    finalise(
        open_spool(folder / "spool"), output,  derive=complete,
    )  # fmt: skip
    return output


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as con:
        return con.execute(query).fetchall()


def losses(path: Path) -> dict[str, object]:
    return {
        str(what): count
        for what, count in rows(
            path, "SELECT concat_ws(' ', code, record, detail), count FROM trace_stat"
        )
    }


@pytest.mark.parametrize("end_ns", [FINISH, 0])
@pytest.mark.parametrize(("start", "end"), [(500, 400), (999, 1), (900, 150), (2**62, 400)])
def test_a_range_that_ends_before_it_begins_is_counted(
    tmp_path: Path, shim: ShimBuilder, start: int, end: int, end_ns: int
) -> None:
    shim.range("backwards", start, end)
    shim.event(THREAD_OPEN, "backwards too", start, end)
    path = saved(tmp_path, shim, end_ns=end_ns)
    assert rows(path, PER_RANGE) == [(200, 300, "sound")]
    assert losses(path)[DAMAGED] == 2


@pytest.mark.parametrize("reported_ns", [300, 600])
def test_an_open_range_that_begins_after_it_was_told_is_counted(
    tmp_path: Path, shim: ShimBuilder, reported_ns: int
) -> None:
    shim.open(("later", reported_ns + 100), ts_ns=reported_ns)
    path = saved(tmp_path, shim)
    assert rows(path, PER_RANGE) == [(200, 300, "sound")]
    assert losses(path)[DAMAGED] == 1


def test_what_is_dated_in_another_century_is_counted(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("future", CENTURY, CENTURY + 10)
    shim.event(MARK, "future", CENTURY, 0)
    shim.event(START, "future", CENTURY, 0, id=1)
    path = saved(tmp_path, shim)
    assert rows(path, PER_RANGE) == [(200, 300, "sound")]
    assert losses(path)[TOO_LATE] == 3


def test_times_that_no_clock_shows_are_counted(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.range("negative", 2**64 - 5, 2**64 - 1)
    shim.range("negative", 250, 2**63)
    shim.event(MARK, "negative", 2**63, 0)
    path = saved(tmp_path, shim)
    assert rows(path, PER_RANGE) == [(200, 300, "sound")]
    assert losses(path)[DAMAGED] == 3


def test_a_number_that_is_used_twice_is_counted(tmp_path: Path, shim: ShimBuilder) -> None:
    shim.event(START, "first", 210, 0, id=7)
    shim.event(START, "second", 220, 0, id=7)
    shim.event(END, "", 0, 230, id=7)
    shim.event(START, "backwards", 240, 0, id=8)
    shim.event(END, "", 0, 220, id=8)
    path = saved(tmp_path, shim)
    assert rows(path, "SELECT start_ns, end_ns, name FROM async_range") == [(210, 230, "first")]
    assert losses(path)[DAMAGED] == 2


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (b"a\x1bb", "a\x1bb"),
        (b"\xff\xfe", "\N{REPLACEMENT CHARACTER}" * 2),
        (b"\xed\xa0\x80", None),
    ],
)
def test_any_bytes_may_be_a_name(
    tmp_path: Path, shim: ShimBuilder, text: bytes, stored: str | None
) -> None:
    shim.cell((struct.pack("<HHIQ", 12, len(text), 0, 77) + text).ljust(64, b"\0"))
    shim.cell(struct.pack("<HBBIQQQQQIIQ", 5, 0, 0, 0, 400, 500, 77, 0, 0, 0, 1, 0))
    path = saved(tmp_path, shim)
    ((name,),) = rows(path, "SELECT name FROM operation WHERE start_ns = 400")
    assert name == stored or (stored is None and "\N{REPLACEMENT CHARACTER}" in str(name))


@pytest.mark.parametrize("length", [5, 48, 49, 60, 111, 112])
def test_a_text_of_a_damaged_length_takes_no_record(
    tmp_path: Path, shim: ShimBuilder, length: int
) -> None:
    for bit in range(11):
        text = chr(ord("a") + bit) * length
        at = len(shim.cells)
        shim.string(text)
        shim.reported.add(text)
        damaged = struct.pack("<H", length ^ 1 << bit)
        shim.cells = shim.cells[: at + 2] + damaged + shim.cells[at + 4 :]
        shim.range(text, 400 + 10 * bit, 405 + 10 * bit, flags=1)
    path = saved(tmp_path, shim)
    found = [start for start, _, _ in rows(path, PER_RANGE)]
    assert found == [200, *range(400, 510, 10)]
    assert losses(path)[DAMAGED] >= 11


def test_marks_between_the_end_of_the_trace_and_that_of_the_recorder_are_no_loss(
    tmp_path: Path, shim: ShimBuilder
) -> None:
    shim.event(MARK, "in", FINISH - 60, 0)
    shim.event(MARK, "after", FINISH, 0)
    shim.event(MARK, "after", FINISH + 5_000, 0)
    path = saved(tmp_path, shim)
    assert rows(path, "SELECT ts_ns, name FROM mark") == [(FINISH - 60, "in")]
    assert losses(path) == {}


def test_a_mark_from_before_its_thread_had_a_ring_is_counted(
    tmp_path: Path, shim: ShimBuilder
) -> None:
    shim.event(MARK, "in", 200, 0)
    shim.event(MARK, "flipped", BEGIN - 64, 0)
    path = saved(tmp_path, shim)
    assert rows(path, "SELECT ts_ns, name FROM mark") == [(200, "in")]
    assert losses(path) == {DAMAGED: 1}


def test_a_thread_whose_ring_is_dated_after_the_end_keeps_its_ranges(tmp_path: Path) -> None:
    shim = ShimBuilder()
    shim.source(pid=10)
    shim.thread(tid=10, ts_ns=FINISH + 5_000)
    shim.range("step", 200, 300)
    shim.ts_ns = 400
    path = saved(tmp_path, shim)
    assert rows(path, PER_RANGE) == [(200, 300, "step")]
    assert losses(path) == {}


def test_marks_from_before_the_recording_are_no_loss(tmp_path: Path) -> None:
    shim = ShimBuilder()
    shim.source(pid=10)
    shim.thread(tid=10, ts_ns=BEGIN - 50)
    shim.event(MARK, "before", BEGIN - 20, 0)
    shim.event(MARK, "in", 200, 0)
    path = saved(tmp_path, shim)
    assert rows(path, "SELECT ts_ns, name FROM mark") == [(200, "in")]
    assert losses(path) == {}


def test_a_part_that_cannot_be_worked_out_costs_that_part_only(
    tmp_path: Path, shim: ShimBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("an operation ends before it starts")

    monkeypatch.setattr("rlscope_analysis.sweep.active_set.store", fails)
    path = saved(tmp_path, shim)
    assert rows(path, PER_RANGE) == [(200, 300, "sound")]
    assert any(
        what.startswith("not_derived") and "an operation ends" in what for what in losses(path)
    )
    assert rows(path, "SELECT count(*) > 0 FROM thread_overlap_coded") == [(True,)]
