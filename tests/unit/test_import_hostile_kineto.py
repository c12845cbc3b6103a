"""`import kineto`: a hostile file costs bounded memory, ends, and says what it lost."""

from __future__ import annotations

import gzip
import json
import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from conftest import in_matrix
from import_child import run_child
from kineto_builder import annotation, imported, losses, op, slice_, write_kineto, write_text
from rlscope_trace.errors import TracerError
from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.kineto_file import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_GROWTH_MIB = 512
_HEAD = '{"schemaVersion": 1, "traceEvents": ['
_MIB = 1 << 20
_FIRST = json.dumps(op("first", 0, 10))


def packed(path: Path, parts: Iterator[str]) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for part in parts:
            file.write(part.encode())
    return path


def long_text(before: str, text: str, after: str, mib: int) -> Iterator[str]:
    yield f"{_HEAD}{_FIRST}{before}"
    for _ in range(mib):
        yield text * (_MIB // len(text))
    yield f"{after}]}}"


def many(event: Callable[[int], str], count: int) -> Iterator[str]:
    yield _HEAD + _FIRST
    for begin in range(0, count, 1000):
        yield "".join("," + event(index) for index in range(begin, begin + 1000))
    yield "]}"


def complete(index: int, **fields: object) -> str:
    event = {"ph": "X", "cat": "cpu_op", "name": "n", "pid": 1, "tid": 1, "ts": index, "dur": 1}
    return json.dumps({**event, **fields})


def escaped_name(mib: int) -> Iterator[str]:
    name = r"\u00e9\"\\ \ud83d\ude00 \n"
    yield from long_text(',{"ph":"X","cat":"cpu_op","ts":1,"dur":1,"pid":1,"tid":1,"name":"', name,
                         '"}', mib)  # fmt: skip


def long_header() -> Iterator[str]:
    yield '{"h":{'
    for number in range(9999):
        yield f'"k{number}":{{"{"x" * 9000}":"{"y" * 9000}"}},'
    yield f'"k":1}},"traceEvents":[{_FIRST}]}}'


def process_name(index: int) -> str:
    args = f'{{"name":"{"p" * 900}"}}'
    return f'{{"ph":"M","name":"process_name","pid":{index},"args":{args}}}'


def nested(index: int) -> str:
    name = f"n{index % 9}"
    return complete(index, ts=index, dur=900_000 - 2 * index, name=name, cat="user_annotation")


BOMBS: dict[str, tuple[Callable[[], Iterator[str]], str]] = {
    "a name": (
        lambda: long_text(
            ',{"ph":"X","cat":"cpu_op","ts":1,"dur":1,"pid":1,"tid":1,"name":"', "N", '"}', 400
        ),
        "1 truncated: texts longer than 64 KiB: cut",
    ),
    "a name of escapes": (lambda: escaped_name(400), "1 truncated: texts longer than 64 KiB"),
    "an ignored text": (
        lambda: long_text(',{"ph":"X","ignored":"', "a", '"}', 400),
        "1 skipped: Kineto events: without a category",
    ),
    "a key": (lambda: long_text(',{"ph":"X","', "a", '":1}', 400), "1 skipped"),
    "a number": (
        lambda: long_text(',{"ph":"X","ignored":', "1", "}", 400),
        "a number has too many digits",
    ),
    "a header": (long_header, "nothing lost"),
    "names": (
        lambda: many(lambda i: complete(i, name=f"name {i} of many different ones"), 600_000),
        "dropped: names of Kineto events: (other names) stands for them",
    ),
    "processes": (
        lambda: many(lambda i: complete(i, pid=i, tid=i), 40_000),
        "20,000 dropped: Kineto events of further processes, threads and streams",
    ),
    "categories": (
        lambda: many(lambda i: complete(i, cat=f"c{i}"), 200_000),
        "199,950 skipped: Kineto events of further categories",
    ),
    "names of processes": (
        lambda: many(process_name, 200_000),
        "dropped: names of processes and threads: there are too many",
    ),
    "stacks": (
        lambda: many(nested, 200_000),
        "dropped: operations of more than 30,000 stacks, or in 1,000 others: left out",
    ),
    "events": (
        lambda: many(lambda _: _FIRST, 1_300_000),
        "more events than so few compressed bytes can be a trace of",
    ),
    "spaces": (
        lambda: long_text("", " ", "", 600),
        "it is longer than so few compressed bytes can be a trace of",
    ),
    "depth": (
        lambda: long_text(',{"ph":"X","args":', "[", "", 100),
        "it is nested too deeply",
    ),
}  # fmt: skip

# One of each kind: a long text, many events, and what is refused.
IN_CI = ("a name of escapes", "a header", "names", "stacks", "spaces", "depth")


@pytest.fixture(scope="module")
def usual_mib(tmp_path_factory: pytest.TempPathFactory) -> float:
    path = tmp_path_factory.mktemp("small") / "small.json"
    return run_child("kineto", write_kineto(path, [op("a", 0, 9)])).peak_mib


@pytest.mark.slow
@pytest.mark.parametrize("bomb", [*IN_CI, *in_matrix(*(b for b in BOMBS if b not in IN_CI))])
def test_memory_is_bounded(tmp_path: Path, usual_mib: float, bomb: str) -> None:
    parts, words = BOMBS[bomb]
    seen = run_child("kineto", packed(tmp_path / "bomb.json.gz", parts()))
    assert words in seen.words
    assert seen.peak_mib < usual_mib + _GROWTH_MIB


@pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 524_288, 524_312, 600_000, 3_000_000])
@pytest.mark.parametrize("as_ascii", [True, False])
def test_a_long_name_is_cut_between_characters(
    tmp_path: Path, length: int, *, as_ascii: bool
) -> None:
    units = ("x", "\u00e9", "\U0001f600", '"', "\\", "\x01")
    names = [unit * length for unit in units]
    long = [op(name, 100 * at, 100 * at + 9) for at, name in enumerate(names, 1)]
    events = [op("before", 0, 9), *long, op("behind", 900, 909)]
    text = json.dumps({"traceEvents": events}, ensure_ascii=as_ascii)
    with imported(write_text(tmp_path / "a.json", text)) as con:
        found = [s for (s,) in con.execute("SELECT symbol FROM site ORDER BY site_id").fetchall()]
        lost = losses(con)
    kept = [65_536 // len(unit.encode()) for unit in units]
    assert found == [
        "before", *(name[:most] for name, most in zip(names, kept, strict=True)), "behind"
    ]  # fmt: skip
    cut = sum(length > most for most in kept)
    assert lost == ({("truncated", "kineto_text_cut"): cut} if cut else {})


def test_what_follows_a_skipped_text_is_at_its_byte(tmp_path: Path) -> None:
    start = f'{_HEAD}{_FIRST},{{"ignored":"{"x" * 2_000_000}","ph":"M"}}'
    path = write_text(tmp_path / "a.json", f"{start} ? ]}}")
    with (
        pytest.raises(TracerError, match=f"at byte {len(start) + 1:,} of the file"),
        imported(path),
    ):
        pass


def test_control_characters_of_a_file_are_not_printed(tmp_path: Path) -> None:
    events = [
        op("a\x1b[2J", 0, 9),
        slice_("\x1b]0;owned\x07" + "c" * 9000, "x", 0, 1),
        {**op("b", 1, 2), "ph": "\x9b1m\n"},
    ]
    header = {"hostname": "\x1b[31m", "distributedInfo": {"rank": "\x07"}}
    seen = run_child("kineto", write_kineto(tmp_path / "a.json", events, **header))
    assert "\\x1b]0;owned\\x07ccc" in seen.words
    assert "c" * 200 not in seen.words


class TestOtherThanFiles:
    def test_a_pipe_without_a_writer(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        seen = run_child("kineto", tmp_path / "pipe")
        assert "is a pipe that nobody writes to" in seen.words
        waits: list[int] = []
        with pytest.raises(ImportFileError, match="nobody writes to"):
            read_file(tmp_path / "pipe", salvage=False, progress=lambda done, _: waits.append(done))
        # Of a tenth of a second each.
        assert waits == [0] * 5

    def test_a_pipe_with_a_late_writer(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        text = json.dumps([op("a", 0, 9)] * 20_000)
        writer = threading.Thread(target=write_text, args=(tmp_path / "pipe", text))
        writer.start()
        seen = run_child("kineto", tmp_path / "pipe")
        writer.join()
        assert seen.words.startswith("wrote ")
        assert "20,000 events" in seen.words

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/random", "/dev/null"])
    def test_a_device(self, tmp_path: Path, device: str) -> None:
        (tmp_path / "link").symlink_to(device)
        assert stat.S_ISCHR((tmp_path / "link").stat().st_mode)
        seen = run_child("kineto", tmp_path / "link")
        assert seen.status == 1
        assert "is a device, no file" in seen.words

    def test_a_sparse_file(self, tmp_path: Path) -> None:
        path = write_text(tmp_path / "a.json", f'{_HEAD}{_FIRST},{{"x":"')
        os.truncate(path, 1 << 29)
        seen = run_child("kineto", path)
        assert "it is cut off, at byte 536,870,912 of the file" in seen.words


def test_stacks_are_left_out_whole(tmp_path: Path) -> None:
    events = [annotation("n", i, 4000 - i) for i in range(1200)]
    with imported(write_kineto(tmp_path / "a.json", events)) as con:
        ((kept, deepest),) = con.execute(
            "SELECT count(*), max(depth) FROM operation_path"
        ).fetchall()
        assert (kept, deepest) == (1000, 999)
        assert con.execute("SELECT count(*) FROM operation_coded").fetchall() == [(1000,)]
        (lost,) = losses(con).values()
    assert lost == 200
