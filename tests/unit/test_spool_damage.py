"""Any bytes can stand in records.bin: whatever is whole is kept, the rest is counted."""

from __future__ import annotations

import random
import resource
import struct
from typing import TYPE_CHECKING

import pytest

from rlscope_trace._ingest import SpoolScan, StateRows
from rlscope_trace.spool.directory import RECORD_KINDS
from spool_builder import BUSY, CYCLE, DISCARDED, HEADER, RUNNABLE, SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

HUGE = 2**64 - 1


def read(records: bytes, path: Path, *, end_ns: int = 0) -> tuple[SpoolScan, StateRows]:
    """Decode everything and hold every thread to the conservation law."""
    path.write_bytes(records)
    scan = SpoolScan(str(path), end_ns=end_ns)
    while scan.advance(1 << 16):
        pass
    threads = scan.threads()
    slots = [slot for slot, has_state in enumerate(threads["has_state"].tolist()) if has_state]
    states = StateRows(
        scan, slots=slots, scratch_directory=str(path.parent), batch_rows=100, bucket_bytes=500
    )
    while states.prepare(1 << 16):
        pass
    reported: dict[int, int] = {}
    while (batch := states.next_batch()) is not None:
        lengths = (batch["end_ns"] - batch["start_ns"]).tolist()
        assert min(lengths) > 0
        for thread_id, length in zip(batch["thread_id"].tolist(), lengths, strict=True):
            reported[thread_id] = reported.get(thread_id, 0) + length
    for start_ns, fate_end_ns, lost_ns, thread_id, _ in states.outcomes().tolist():
        assert fate_end_ns - start_ns == reported.pop(thread_id, 0) + lost_ns
        assert lost_ns >= 0
    assert not reported
    return scan, states


def small_spool() -> SpoolBuilder:
    spool = SpoolBuilder()
    spool.clock(90, 1000, 90)
    spool.thread(1, ts_ns=100, tid=10)
    spool.exec(1, ts_ns=105, tid=10, args=b"python\0train.py\0")
    spool.name(1, b"trainer")
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=150, off_state=RUNNABLE)
    spool.thread(2, ts_ns=120, tid=11, tgid=10, creator=1)
    spool.cycle(2, off_ns=120, in_ns=130, out_ns=135, off_state=RUNNABLE)
    spool.cycle(1, off_ns=150, wake_ns=160, in_ns=165, out_ns=170)
    spool.exit(2, ts_ns=180, status=0)
    spool.close(1, off_ns=170)
    return spool


@pytest.mark.parametrize("end_ns", [0, 200])
def test_a_cut_at_every_byte_keeps_the_whole_records(tmp_path: Path, end_ns: int) -> None:
    spool = small_spool()
    records = spool.records()
    ends = [len(HEADER)]
    for frame in spool.frames:
        ends.append(ends[-1] + len(frame))
    for length in range(len(HEADER), len(records) + 1):
        scan, _ = read(records[:length], tmp_path / "records.bin", end_ns=end_ns)
        whole = [end for end in ends if end <= length]
        assert scan.position == whole[-1]
        assert sum(scan.records().values()) == len(whole) - 1
        assert scan.file_bytes == length


def test_any_changed_byte_is_survived(tmp_path: Path) -> None:
    records = small_spool().records()
    for position in range(len(HEADER), len(records)):
        for value in (0x00, 0xFF):
            damaged = bytearray(records)
            damaged[position] = value
            path, end_ns = tmp_path / "records.bin", 200 * (position % 2)
            scan, _ = read(bytes(damaged), path, end_ns=end_ns)
            assert scan.position <= scan.file_bytes == len(records)


def test_garbage_is_survived(tmp_path: Path) -> None:
    source = random.Random(7)
    for size in (1, 7, 8, 100, 5000, 100_000):
        scan, _ = read(HEADER + source.randbytes(size), tmp_path / "records.bin")
        assert scan.position <= scan.file_bytes


def test_garbage_inside_whole_frames_is_survived(tmp_path: Path) -> None:
    source = random.Random(8)
    spool = SpoolBuilder()
    for _ in range(3000):
        size = source.choice([2, 8, 24, 32, 40, 48, 64, 672])
        spool.frame(struct.pack("<H", source.randrange(9)) + source.randbytes(size - 2))
    scan, _ = read(spool.records(), tmp_path / "records.bin")
    assert scan.position == scan.file_bytes
    total = sum(scan.records().values()) + scan.malformed_count + scan.unknown_kind_count
    assert total == 3000


def test_a_busy_frame_ends_the_spool_and_a_discarded_one_does_not(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.frame(bytes(48), flags=DISCARDED)
    spool.thread(1, ts_ns=100, tid=10)
    whole_bytes = len(spool.records())
    spool.frame(bytes(48), flags=BUSY)
    spool.thread(2, ts_ns=100, tid=11)
    scan, _ = read(spool.records(), tmp_path / "records.bin")
    assert scan.position == whole_bytes
    assert scan.threads()["thread_id"].tolist() == [1]


def test_unknown_kinds_and_short_records_are_counted(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.frame(struct.pack("<H", len(RECORD_KINDS)) + bytes(30))
    spool.frame(struct.pack("<H", 0) + bytes(30))
    spool.frame(b"\x02")
    spool.frame(struct.pack("<H", CYCLE) + bytes(45))
    scan, _ = read(spool.records(), tmp_path / "records.bin")
    assert (scan.unknown_kind_count, scan.malformed_count) == (3, 1)


@pytest.mark.parametrize("thread_id", [0, 2**31, 2**32 - 1])
def test_ids_that_do_not_fit_the_database_are_damage(tmp_path: Path, thread_id: int) -> None:
    spool = SpoolBuilder()
    spool.cycle(thread_id, off_ns=1, in_ns=2, out_ns=3)
    spool.thread(thread_id, ts_ns=1, tid=1)
    scan, _ = read(spool.records(), tmp_path / "records.bin")
    assert scan.malformed_count == 2
    assert len(scan.threads()) == 0


def test_a_large_id_does_not_cost_memory(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.cycle(2**31 - 1, off_ns=1, in_ns=2, out_ns=3, off_state=RUNNABLE)
    spool.cycle(2**30, off_ns=1, in_ns=2, out_ns=3, off_state=RUNNABLE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _, states = read(spool.records(), tmp_path / "records.bin")
    assert states.row_count == 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_huge_times_are_damage(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=5, tid=1)
    spool.thread(2, ts_ns=HUGE, tid=2)
    spool.cycle(1, off_ns=5, in_ns=6, out_ns=HUGE)
    spool.cycle(1, off_ns=5, wake_ns=2**63, in_ns=6, out_ns=7)
    spool.cycle(1, off_ns=5, wake_ns=5, in_ns=6, out_ns=2**63 - 2)
    scan, states = read(spool.records(), tmp_path / "records.bin")
    assert scan.malformed_count == 3
    assert states.totals()["end_ns"][-1] == 2**63 - 2
    assert states.outcomes()["end_ns"].tolist() == [2**63 - 2]
