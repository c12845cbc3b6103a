"""Each bit of a small spool changed: what its trace lacks is counted, nothing goes silently."""

from __future__ import annotations

import re
import struct
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from conftest import REPOSITORY
from rlscope_trace._ingest import EventRows, ShimScan, SpoolScan, StateRows
from rlscope_trace.errors import SpoolError
from rlscope_trace.ingest.store.processes import ProcessTree
from rlscope_trace.ingest.store.stats import Decoded, trace_stats
from rlscope_trace.spool.directory import open_spool
from shim_builder import ShimBuilder
from spool_builder import EXEC, QUOTA, SAMPLE, SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.ingest.store.processes import Life

SECOND = 10**9
BEGIN, FINISH = 1000 * SECOND, 1010 * SECOND
EVENTS = ("calls", "releases", "samples", "other_runs", "quotas")
# Of an EXEC record: what is behind are texts.
NUMBERS = 40


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Write a spool with a record of each kind, 5 s before the end of the trace."""
    made, at_ns = SpoolBuilder(), BEGIN + 5 * SECOND
    made.clock(BEGIN, BEGIN, BEGIN)
    made.thread(1, ts_ns=BEGIN, tid=10)
    made.name(1, b"trainer", ts_ns=at_ns)
    made.exec(1, ts_ns=BEGIN + 1, tid=10, args=b"python")
    made.cycle(1, off_ns=BEGIN, wake_ns=BEGIN, in_ns=BEGIN + 10, out_ns=at_ns)
    made.call(1, start_ns=at_ns - 10, end_ns=at_ns)
    made.gil_release(1, start_ns=at_ns - 10, end_ns=at_ns)
    made.sample(1, ts_ns=at_ns, layer=1, stack=1)
    made.stack(1, b"main (train.py:1)\n")
    made.other_run(0, start_ns=at_ns - 10, end_ns=at_ns, pid=7)
    made.quota(1, ts_ns=at_ns)
    made.close(1, off_ns=at_ns)
    return made.write(tmp_path / "spool", end_ns=FINISH)


def decoded(folder: Path) -> tuple[Counter[str], list[object]] | None:
    """Return the rows that a trace would have, and what it would say that it lacks; None: an error.

    By the decoder alone: a database takes a hundred times as long.
    """
    try:
        spool = open_spool(folder)
    except SpoolError:
        return None
    scan = SpoolScan(str(spool.records_path), end_ns=spool.end_ns, latest_ns=spool.latest_ns)
    while scan.advance(1 << 20):
        pass
    tree = ProcessTree(scan.threads(), scan.execs(), end_ns=spool.end_ns)
    states = StateRows(scan, slots=tree.slots, scratch_directory=str(folder), batch_rows=100)
    while states.prepare(1 << 20):
        pass
    # How many states a thread has is no measure: they tile its life, whatever a time is changed to.
    rows: Counter[str] = Counter()
    while states.next_batch() is not None:
        pass
    events = EventRows(scan)
    while (batch := events.next_batch(100)) is not None:
        rows.update({name: len(next(iter(batch[name].values()))) for name in EVENTS})
        rows["stacks"] += len(batch["stacks"])
    lives: list[Life] = tree.lives()
    rows.update(threads=len(states.outcomes()), processes=len(lives), clocks=len(scan.clocks()))
    rows["execs"] = len(scan.execs())
    reported = Decoded(
        records=scan.records(), whole_bytes=scan.position, file_bytes=scan.file_bytes,
        malformed_count=scan.malformed_count, unknown_kind_count=scan.unknown_kind_count,
        unknown_start_count=tree.unknown_start_count, unread_titles=scan.unread_titles,
        findings=states.findings(),
    )  # fmt: skip
    losses = [events.malformed_count, events.unknown_thread_count]
    return rows, [*trace_stats(spool, reported), *losses]


def silent(folder: Path, name: str, places: list[int]) -> list[str]:
    """Return the bits whose change costs rows and is not told."""
    path = folder / name
    sound = path.read_bytes()
    before = decoded(folder)
    assert before is not None
    found = []
    for place in places:
        for bit in range(8):
            changed = bytearray(sound)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            after = decoded(folder)
            if after is not None and before[0] - after[0] and after[1] == before[1]:
                found.append(f"{name}:{place}.{bit} {before[0] - after[0]}")
    return found


def numbers_of(content: bytes) -> list[int]:
    """Return the bytes of records.bin that are no texts."""
    places, at = list(range(16)), 16
    while at < len(content):
        (size,) = struct.unpack_from("<I", content, at)
        (kind,) = struct.unpack_from("<H", content, at + 8)
        step = 8 + (size + 7 & ~7)
        places += range(at, at + (8 + NUMBERS if kind == EXEC else step))
        at += step
    return places


def place_of(wanted: int, content: bytes) -> int:
    """Return where the record of a kind begins in records.bin."""
    at = 16
    while struct.unpack_from("<H", content, at + 8)[0] != wanted:
        (size,) = struct.unpack_from("<I", content, at)
        at += 8 + (size + 7 & ~7)
    return at + 8


def test_the_sound_spool_has_everything(spool: Path) -> None:
    found = decoded(spool)
    assert found is not None
    rows, losses = found
    assert {name for name, count in rows.items() if not count} == set()
    assert losses == [0, 0]


@pytest.mark.matrix
def test_no_bit_of_the_records_costs_a_row_silently(spool: Path) -> None:
    places = numbers_of((spool / "records.bin").read_bytes())
    assert silent(spool, "records.bin", places) == []


@pytest.mark.parametrize("kind", [EXEC, SAMPLE, QUOTA])
def test_no_bit_dates_a_record_after_the_recording_silently(spool: Path, kind: int) -> None:
    at = place_of(kind, (spool / "records.bin").read_bytes())
    assert silent(spool, "records.bin", list(range(at + 8, at + 16))) == []


def test_no_bit_of_the_end_cuts_the_trace_silently(spool: Path) -> None:
    content = (spool / "progress.bin").read_bytes()
    at = content.index(FINISH.to_bytes(8, "little"))
    assert silent(spool, "progress.bin", list(range(at, at + 8))) == []


@pytest.mark.matrix
def test_no_bit_of_the_counters_costs_a_row_silently(spool: Path) -> None:
    places = list(range(len((spool / "progress.bin").read_bytes())))
    assert silent(spool, "progress.bin", places) == []


@pytest.mark.parametrize("kind", [5, 6, 7, 8])
def test_a_block_of_another_size_than_its_kind_is_counted(tmp_path: Path, kind: int) -> None:
    shim = ShimBuilder()
    shim.source(pid=10)
    shim.block(kind, bytes(60))
    folder = tmp_path / "spool"
    folder.mkdir()
    shim.write(folder)
    assert ShimScan(str(folder / "shim.bin")).losses()["damaged"] == 1


def test_one_bit_makes_no_other_record_of_a_shim() -> None:
    text = (REPOSITORY / "cupti/records.h").read_text()
    names = re.search(r"enum rls_shim_kind \{(.*?)RLS_SHIM_KINDS", text, re.DOTALL)
    assert names is not None
    kinds = [int(number) for number in re.findall(r"= (\d+),", names[1])]
    assert len(kinds) > 18
    assert all((one ^ other).bit_count() > 1 for one, other in combinations(kinds, 2))
