"""Spools of which the end is kept: which segments count, and what else is bounded."""

import json
import os
import struct
from pathlib import Path

import pytest

from rlscope_trace.errors import SpoolError
from rlscope_trace.record.probes.log import ProbeLog
from rlscope_trace.spool.counter_file import CounterFile, CounterLines, read_counter_file
from rlscope_trace.spool.directory import RECORDS_FILE, WIRE_VERSION, open_spool, remove_files
from rlscope_trace.spool.segments import SEGMENT_MAGIC, drop_before, find_segments, join_records

HEADER = struct.Struct("<QIIQQQQQQ")
SIZE = 1 << 28


def segment(
    folder: Path, number: int, previous: int, keyframe: bytes = b"", **reported: int
) -> Path:
    """Write the file of the records of a segment."""
    fields = {
        "magic": SEGMENT_MAGIC,
        "keyframe_bytes": len(keyframe),
        "cut_ns": 100 * number,
        **reported,
    }
    path = folder / f"records-{number}.bin"
    path.write_bytes(
        HEADER.pack(
            fields["magic"], WIRE_VERSION, HEADER.size, number, previous, fields["cut_ns"],
            fields["keyframe_bytes"], 0, 0,
        )
        + keyframe
        + b"since"
    )  # fmt: skip
    return path


def numbers(folder: Path) -> list[int]:
    """Return the numbers of the segments that count."""
    return [found.number for found in find_segments(folder, WIRE_VERSION)]


def test_those_that_follow_each_other_count(tmp_path: Path) -> None:
    for number, previous in ((2, 1), (3, 2), (5, 3), (10, 5)):
        segment(tmp_path, number, previous)
    assert numbers(tmp_path) == [2, 3, 5, 10]


def test_holes_of_segments_take_no_room_where_they_are_joined(tmp_path: Path) -> None:
    """A file may be said to be of any size: of what was not written nothing is written."""
    for number in (0, 1):
        path = segment(tmp_path, number, 0, b"told" if number else b"")
        os.truncate(path, SIZE)
        with path.open("r+b") as file:
            file.seek(SIZE // 2)
            file.write(b"late")
    joined = tmp_path / "joined"
    before = path.stat().st_blocks
    join_records(tmp_path, find_segments(tmp_path, WIRE_VERSION), b"header", joined)
    assert joined.stat().st_blocks <= 4 * before
    first = len(b"header")
    second = first + SIZE - HEADER.size
    assert joined.stat().st_size == second + SIZE - HEADER.size - len(b"told")
    with joined.open("rb") as file:
        assert file.read(first + 5) == b"headersince"
        for at in (first - HEADER.size, second - HEADER.size - len(b"told")):
            file.seek(at + (SIZE // 2))
            assert file.read(4) == b"late"
        file.seek(second)
        assert file.read(5) == b"since"


def test_one_that_was_begun_in_part_is_none(tmp_path: Path) -> None:
    segment(tmp_path, 0, 0)
    segment(tmp_path, 1, 0)
    # As a kill leaves it: what is told first is there, the header is not.
    (tmp_path / "records-2.bin").write_bytes(bytes(HEADER.size) + b"told")
    (tmp_path / "records-3.bin").touch()
    assert numbers(tmp_path) == [0, 1]


def test_what_lies_before_a_hole_does_not_count(tmp_path: Path) -> None:
    for number, previous in ((0, 0), (1, 0), (3, 2), (4, 3)):
        segment(tmp_path, number, previous)
    assert numbers(tmp_path) == [3, 4]


@pytest.mark.parametrize(
    "reported", [{"magic": 1}, {"keyframe_bytes": 2**40}, {"cut_ns": 2**63}], ids=str
)
def test_a_damaged_header_makes_none(tmp_path: Path, reported: dict[str, int]) -> None:
    segment(tmp_path, 0, 0, **reported)
    assert numbers(tmp_path) == []
    with pytest.raises(SpoolError, match="holds no segment"):
        open_spool(tmp_path)


def test_links_and_pipes_are_none(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    aim = segment(outside, 1, 0)
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "records-1.bin").symlink_to(aim)
    os.mkfifo(folder / "records-2.bin")
    segment(folder, 3, 2)
    assert numbers(folder) == [3]
    remove_files(folder)
    assert aim.exists()
    assert not folder.exists()


def test_one_that_names_a_later_one_ends_the_chain(tmp_path: Path) -> None:
    segment(tmp_path, 1, 2)
    segment(tmp_path, 2, 1)
    assert numbers(tmp_path) == [1, 2]


def test_they_are_joined_with_what_was_so_at_first_only(tmp_path: Path) -> None:
    folder, joined = tmp_path / "spool", tmp_path / "joined"
    folder.mkdir()
    joined.mkdir()
    segment(folder, 4, 3, keyframe=b"first")
    segment(folder, 5, 4, keyframe=b"second")
    with open_spool(folder).whole(joined) as whole:
        assert whole.records_path.read_bytes()[16:] == b"firstsince" + b"since"
        assert whole.kept_from_ns == 400
        assert whole.progress is None
        assert whole.shim_path is None
    assert list(joined.iterdir()) == []


def test_a_full_disk_costs_the_trace_and_not_the_spool(tmp_path: Path) -> None:
    segment(tmp_path, 4, 3)
    (tmp_path / "joined").touch()
    spool = open_spool(tmp_path)
    with pytest.raises(OSError, match="joined"), spool.whole(tmp_path / "joined"):
        pytest.fail("there is no such folder")
    assert spool.is_there()


def test_older_ones_are_dropped(tmp_path: Path) -> None:
    for number in (2, 3, 10):
        for kind in ("records", "progress", "shim"):
            (tmp_path / f"{kind}-{number}.bin").touch()
    (tmp_path / RECORDS_FILE).touch()
    drop_before(tmp_path, 3)
    assert {path.name for path in tmp_path.iterdir()} == {
        RECORDS_FILE,
        *(f"{kind}-{number}.bin" for kind in ("records", "progress", "shim") for number in (3, 10)),
    }


def test_readings_before_a_time_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "counters.jsonl"
    file = CounterFile(path)
    file.write([{"uuid": "GPU-1", "index": 0, "name": "A"}], ts_ns=0)
    largest = 0
    for ts_ns in range(50_000):
        file.write([[0, ts_ns, {"power": ts_ns}]], ts_ns=ts_ns, readings=1)
        if ts_ns % 100 == 0:
            file.forget_before(ts_ns - 1000)
            largest = max(largest, path.stat().st_size)
    file.close()
    # What 1,000 readings take, twice, and what is not worth the work.
    assert largest < 2 * 1100 * 32 + (1 << 16) + 100 * 32
    lines = CounterLines()
    times = [ts_ns for _, ts_ns, _, _ in read_counter_file(path, lines)]
    assert times == list(range(times[0], 50_000))
    assert times[0] <= 48_900
    assert (lines.damaged, len(lines.devices), lines.lost.count) == (0, 1, 0)


def test_what_was_noted_of_processes_that_are_no_more_is_dropped(tmp_path: Path) -> None:
    log = ProbeLog(tmp_path)
    path = tmp_path / "probes.jsonl"
    log.append("site", site_id=1, ts_ns=5)
    log.append("python", pid=1, ts_ns=6)
    largest = 0
    for pid in range(2, 20_000):
        log.append("title", pid=1, ts_ns=pid, title=f"step {pid}")
        log.append("no_python", pid=pid, ts_ns=pid)
        if pid % 100 == 0:
            log.forget_before(pid - 500, alive=[1])
            largest = max(largest, path.stat().st_size)
    log.close()
    assert largest < 2 * 600 * 120 + (1 << 18) + 200 * 80
    reported = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in reported[:2]] == ["site", "python"]
    assert reported[-1]["pid"] == 19_999
    assert log.lost == 0
    assert not (tmp_path / "probes.jsonl.new").exists()


@pytest.mark.parametrize("planted", ["/dev/zero", "lines of others"])
def test_what_others_put_in_the_place_of_the_notes_is_not_read(
    tmp_path: Path, planted: str
) -> None:
    log = ProbeLog(tmp_path)
    for pid in range(6_000):
        log.append("no_python", pid=pid, ts_ns=pid)
    path = tmp_path / "probes.jsonl"
    if planted == "/dev/zero":
        path.unlink()
        path.symlink_to(planted)
    else:
        with path.open("r+") as file:
            file.write("[1]\n" * 50)
    log.forget_before(5_000, alive=[])
    log.append("site", site_id=1, ts_ns=9_000)
    log.close()
    if planted == "/dev/zero":
        reported = [json.loads(line) for line in path.read_text().splitlines()]
        assert (reported[0]["pid"], reported[-1]["event"]) == (5_000, "site")
    else:
        assert path.read_text().endswith('"ts_ns": 9000}\n')
