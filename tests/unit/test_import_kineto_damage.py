"""`import kineto`: damaged files give one error that says where, or what is before it."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
from typing import TYPE_CHECKING

import duckdb
import pytest

from kineto_builder import (
    annotation,
    call,
    imported,
    kernel,
    losses,
    op,
    run_import,
    write_kineto,
    write_text,
)
from rlscope_trace._ingest import read_kineto
from rlscope_trace.errors import OutputExistsError, TracerError, UsageError
from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.kineto_file import read_file

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = [
    annotation('st"ep \\ \u00e9', 0, 100),
    op("aten::mm", 1, 50, **{"Input Dims": [[1, [2]], []], "x": {"y": None}}),
    call("cudaLaunchKernel", 5, 6, 1),
    kernel("gemm", 10, 20, 1),
]


def small_text() -> bytes:
    return json.dumps(
        {"schemaVersion": 1, "traceEvents": EVENTS, "distributedInfo": {"rank": 0}},
        ensure_ascii=False,
    ).encode()


def refusal(path: Path, *, salvage: bool = False) -> ImportFileError:
    with pytest.raises(ImportFileError) as caught:
        read_file(path, salvage=salvage, progress=lambda _position, _size: None)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)
    return caught.value


def whole_events_in(text: bytes) -> int:
    """Count the events that are complete in the beginning of the small file."""
    ends, at = [], small_text().index(b"[") + 1
    for event in EVENTS:
        at = small_text().index(json.dumps(event, ensure_ascii=False).encode(), at)
        at += len(json.dumps(event, ensure_ascii=False).encode())
        ends.append(at)
    return sum(end <= len(text) for end in ends)


def test_cut_off_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    whole = small_text()
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        error = refusal(path)
        assert str(error) == f"{path} is damaged: it is cut off, at byte {length:,} of the file"
        assert error.hint is not None
        assert "--salvage" in error.hint
        kept = read_file(path, salvage=True, progress=lambda _position, _size: None)
        assert kept.event_count == whole_events_in(whole[:length])
        assert kept.damage == f"it is cut off, at byte {length:,} of the file"


def test_gzip_cut_off_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    whole = gzip.compress(small_text())
    for length in range(2, len(whole)):
        path.write_bytes(whole[:length])
        error = refusal(path)
        assert re.search(
            r"the compressed data is cut off, at byte [\d,]+ of the uncompressed text$", str(error)
        )
        read_file(path, salvage=True, progress=lambda _position, _size: None)


@pytest.mark.parametrize("name", ["cut.json", "cut.json.gz"])
def test_salvage_makes_a_trace_of_every_cut(tmp_path: Path, name: str) -> None:
    whole = gzip.compress(small_text()) if name.endswith("gz") else small_text()
    for length in (2, 15, len(whole) // 3, len(whole) // 2, len(whole) - 2):
        path = tmp_path / name
        path.write_bytes(whole[:length])
        with imported(path, salvage=True) as con:
            ((code, detail),) = con.execute(
                "SELECT code, detail FROM trace_stat WHERE kind = 'truncated'"
            ).fetchall()
            assert code == "kineto_file_cut"
            assert "cut off, at byte" in detail
            assert con.execute("SELECT value FROM meta WHERE key = 'ended_cleanly'").fetchall() == [
                ("false",)
            ]


def test_salvage_keeps_the_events_before_the_damage(tmp_path: Path) -> None:
    text = small_text()
    path = tmp_path / "cut.json"
    path.write_bytes(text[: text.index(b'"gemm"')] + b"?" + text[text.index(b'"gemm"') :])
    with imported(path, salvage=True) as con:
        counts = {
            table: con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            for table in ("operation", "native_call", "cuda_call", "gpu_activity")
        }
        assert counts == {"operation": 1, "native_call": 1, "cuda_call": 1, "gpu_activity": 0}


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ('{"traceEvents": [{"ph": "X",}]}', 28),
        ('{"traceEvents": [{"name": "\\q"}]}', 27),
        ('{"traceEvents": [{"name": "\\ud800"}]}', 27),
        ('{"traceEvents": [{"ts": 1.}]}', 26),
        ('{"traceEvents": [{"ts": 01}]}', 25),
        ('{"traceEvents": []} {}', 20),
        ('{"traceEvents": []}\0 ', 19),
        ('{"traceEvents": [\0]}', 17),
        ("[" * 2000, 1000),
        ('{"traceEvents": [{"args": ' + "[" * 100_000, 1023),
    ],
)
def test_malformed_text_is_told_with_its_offset(tmp_path: Path, text: str, offset: int) -> None:
    error = refusal(write_text(tmp_path / "a.json", text))
    place = re.search(r"at byte ([\d,]+) of the file$", str(error))
    assert place is not None
    assert int(place[1].replace(",", "")) == pytest.approx(offset, abs=1)


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    packed = bytearray(gzip.compress(small_text()))
    packed[-6] ^= 0xFF  # in the checksum
    path.write_bytes(packed)
    assert "of the uncompressed text" in str(refusal(path))
    kept = read_file(path, salvage=True, progress=lambda _position, _size: None)
    assert kept.event_count == len(EVENTS)


def test_gzip_of_several_members_with_padding(tmp_path: Path) -> None:
    text = small_text()
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(text[:100]) + gzip.compress(text[100:]) + b"\0" * 512)
    kept = read_file(path, salvage=False, progress=lambda _position, _size: None)
    assert kept.event_count == len(EVENTS)
    path.write_bytes(gzip.compress(text) + b"more")
    assert "other data follows" in str(refusal(path))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"ELF", "no JSON"),
        (b"<html>", "no JSON"),
        (b"42", "no traceEvents"),
        (b'{"a": [1, 2]}', "no traceEvents"),
        (b'{"traceEvents": {}}', "no traceEvents"),
        (b"[1, 2, 3]", "no events"),
        (b'[{"name": "x"}]', "no events"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    for salvage in (False, True):
        error = refusal(path, salvage=salvage)
        assert message in str(error)
        assert error.hint is not None


def test_byte_order_mark_bad_bytes_and_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    events = json.dumps([op("AB", 0, 1), op("CD", 2, 3), op("a\\u0000b", 4, 5)])
    data = events.encode().replace(b"AB", b"A\xffB").replace(b"CD", b"C\n\tD")
    path.write_bytes(
        b"\xef\xbb\xbf" + data.replace(b'"args": {}', b'"args": {"x": NaN, "y": -Infinity}')
    )
    with imported(path) as con:
        symbols = [row[0] for row in con.execute("SELECT symbol FROM site").fetchall()]
        assert symbols == ["A\ufffdB", "C\ufffd\ufffdD", "a\\u0000b"]
        assert losses(con) == {("dropped", "kineto_no_text"): 2}


def test_missing_file_and_directory(tmp_path: Path) -> None:
    assert "there is no file" in str(refusal(tmp_path / "none.json"))
    error = refusal(tmp_path)
    assert "is a directory" in str(error)
    assert error.hint == f"name the files in it: {tmp_path}/*.json*"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    assert str(refusal(loop)) == f"cannot read {loop}: {os.strerror(errno.ELOOP)}"


def test_output_and_input_are_not_confused(tmp_path: Path) -> None:
    path = write_kineto(tmp_path / "a.json", EVENTS)
    with pytest.raises(UsageError, match="named twice"):
        run_import([path, tmp_path / "." / "a.json"], tmp_path / "t.duckdb")
    with pytest.raises(UsageError, match="one of the files to import"):
        run_import([path], path, overwrite=True)
    with pytest.raises(UsageError, match="no file"):
        run_import([], tmp_path / "t.duckdb")


def test_an_existing_output_stays_unless_forced(tmp_path: Path) -> None:
    path = write_kineto(tmp_path / "a.json", EVENTS)
    output = tmp_path / "t.duckdb"
    output.write_bytes(b"mine")
    with pytest.raises(OutputExistsError):
        run_import([path], output)
    bad = write_text(tmp_path / "bad.json", "{")
    with pytest.raises(TracerError):
        run_import([path, bad], output, overwrite=True)
    assert output.read_bytes() == b"mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "bad.json", "t.duckdb"]
    run_import([path], output, overwrite=True)
    with duckdb.connect(str(output), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM gpu_activity").fetchall() == [(1,)]


def test_an_interrupt_while_reading_ends_it(tmp_path: Path) -> None:
    path = write_kineto(tmp_path / "a.json", EVENTS)

    def interrupt(_position: int, _size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_kineto(str(path), interrupt)
