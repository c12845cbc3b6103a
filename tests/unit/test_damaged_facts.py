"""Facts of any shape in the small files of a spool: counted where they are none, never an error."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import duckdb
import pytest

from damaged_spool import build
from finalising import finalise
from rlscope_analysis.derive import complete
from rlscope_trace.ingest.store.probe_facts import read_probe_facts
from rlscope_trace.spool.directory import open_spool
from rlscope_trace.spool.session_facts import read_session
from spool_builder import KINDS, SpoolBuilder

if TYPE_CHECKING:
    from pathlib import Path

ODD = [
    "NaN", "1e400", "-1", "9" * 30, "null", "true", "[]", "{}", '"x"', '"\\ud800"', '"\\u0000"',
    '"' + "x" * 100_000 + '"', "[" * 50_000, "0.5", "[null]", '{"measured": 1}', '[{"pid": "x"}]',
]  # fmt: skip
SHAPED = (
    "probe_settings",
    "operations",
    "gpu",
    "operations_late",
    "shim_taken_pids",
    "recorder_pid",
)


@pytest.mark.parametrize("key", SHAPED)
def test_a_fact_of_another_shape_is_left_out_and_counted(tmp_path: Path, key: str) -> None:
    path = tmp_path / "session.json"
    for value in ODD:
        path.write_text(f'{{"host": "box", "{key}": {value}}}')
        session, damaged = read_session(path)
        assert damaged or session["host"] == "box"
        if damaged:
            assert key not in session
        if value in ("null", "[]") and key.endswith(("late", "pids")):
            continue
        if key != "recorder_pid":
            assert damaged == 1, value[:20]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 10**6, b"1"])
def test_a_session_that_is_none_costs_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(content)
    assert read_session(path) == ({}, 1)
    path.unlink()
    assert read_session(path) == ({}, 0)


def test_words_that_are_no_utf8_are_kept_as_far_as_they_go(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_text(json.dumps({"argv": ["train", "\udcff.py"], "note": "a\0b"}))
    assert read_session(path) == ({"argv": ["train", "?.py"], "note": "a\0b"}, 0)


@pytest.mark.parametrize("value", ODD)
def test_odd_values_in_any_file_make_a_trace(tmp_path: Path, value: str) -> None:
    folder = build(tmp_path / "spool")
    lines = {
        "session.json": f'{{"host": {value}, "probe_settings": {value}, "ring_mib": {value}}}',
        "counters.jsonl": f'{value}\n[0, {value}, {{"power": 1}}]\n[{value}, 5, {{"x": {value}}}]\n'
        f'{{"uuid": {value}, "index": {value}, "name": {value}}}\n{{"unavailable": {value}}}\n',
        "os_counters.jsonl": f'{value}\n[5, {value}, null, {{"x": 1}}]\n{{"lost": {value}}}\n'
        f'[{value}, "process", {value}, {{"x": {value}}}]\n[5, "cgroup", {value}, {value}]\n',
        "calibration.json": f'{{"format": 4, "costs": [{value}], "key": {value}}}',
    }
    for name, text in lines.items():
        (folder / name).write_text(text)
    output = tmp_path / "trace.duckdb"
    finalise(
        open_spool(folder),
        output,
        derive=complete,
    )
    with duckdb.connect(str(output), read_only=True) as con:
        ((longest,),) = con.execute(
            "SELECT max(length(code) + coalesce(length(detail), 0)) FROM trace_stat"
        ).fetchall()
    assert longest < 300


def test_notes_of_the_probes_of_any_shape_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "probes.jsonl"
    sites = '{"event": "site", "site_id": 1, "module": %s, "symbol": "f", "layer": "backend",'
    rest = ' "file_offset": 1, "state": "probed", "ts_ns": 5}\n'
    odd = [value for value in ODD if not value.startswith('"') or len(value) > 65_000]
    path.write_text("".join(sites % value + rest for value in odd) + "x" * (3 << 20) + "\n[1]\n")
    facts = read_probe_facts(path)
    assert facts.damaged_lines == len(odd) + 2
    assert facts.sites == {}


@pytest.mark.parametrize("place", ["records", "bytes", "end"])
def test_counters_that_nothing_can_reach(tmp_path: Path, place: str) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=900)
    folder = spool.write(tmp_path / "spool", end_ns=1000)
    content = bytearray((folder / "progress.bin").read_bytes())
    number = {"records": 2, "bytes": KINDS - 1, "end": KINDS + 1}[place]
    offset = 16 + 8 * number
    struct.pack_into("<Q", content, offset, 2**64 - 10 if place != "end" else 10**18)
    (folder / "progress.bin").write_bytes(content)
    opened = open_spool(folder)
    assert opened.end_ns == 0
    report = finalise(
        opened, tmp_path / "trace.duckdb",  derive=complete,
    )  # fmt: skip
    sources = [loss.code for loss in report.losses]
    assert ("counters_gone" in sources) == (place != "end")
    assert "recorder_killed" in sources


def test_records_from_long_after_the_recording_are_damage(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    spool.cycle(1, off_ns=100, in_ns=110, out_ns=900)
    spool.cycle(1, off_ns=900, in_ns=910, out_ns=2**62)
    spool.thread(2, ts_ns=2**62, tid=11)
    spool.call(1, start_ns=200, end_ns=2**62)
    report = finalise(
        open_spool(spool.write(tmp_path / "spool", end_ns=1000)), tmp_path / "trace.duckdb",
         derive=complete,
    )  # fmt: skip
    losses = {loss.code: loss.count for loss in report.losses}
    assert losses["spool_damaged"] == 2
    assert losses["events_unreadable"] == 1
    assert report.rows["thread"] == 1


def test_few_of_very_many_rings_are_told_of_one_by_one(tmp_path: Path) -> None:
    spool = SpoolBuilder()
    spool.thread(1, ts_ns=100, tid=10)
    lost = {(cpu, 2): (cpu + 1, 100 + cpu) for cpu in range(1000)}
    folder = spool.write(tmp_path / "spool", end_ns=1000, cpus=1000, ring_losses=lost)
    report = finalise(
        open_spool(folder), tmp_path / "trace.duckdb",  derive=complete,
    )  # fmt: skip
    rings = [loss for loss in report.losses if "ring" in loss.code]
    assert len(rings) < 70
    assert sum(loss.count or 0 for loss in rings) == 1000 * 1001 // 2
    assert min(loss.first_ns or 0 for loss in rings) == 100
