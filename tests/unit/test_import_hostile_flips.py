"""Files of other profilers with any bytes changed become a trace, or one error in plain words."""

from __future__ import annotations

import gzip
import random
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from finalising import ended, report_nothing
from rlscope_trace.errors import TracerError
from rlscope_trace.ingest.importers import kineto, nsys
from trace_builder import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_DATA = REPOSITORY / "tests" / "data"
_PLAIN = gzip.decompress((_DATA / "kineto" / "triton_example.json.gz").read_bytes())
_FILES = {
    "kineto.json": _PLAIN,
    "kineto.json.gz": (_DATA / "kineto" / "triton_example.json.gz").read_bytes(),
    "export.sqlite": (_DATA / "nsys" / "mock.sqlite").read_bytes(),
}
_STORED = 4
_ONLY_READ = 60


def flip(data: bytearray, at: int, rng: random.Random) -> None:
    data[at] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, at: int, rng: random.Random) -> None:
    data[at] = rng.choice(b'\x00\x01\x7f\x80\xff"\\{}[]-9')


def zero(data: bytearray, at: int, rng: random.Random) -> None:
    end = min(len(data), at + rng.randrange(1, 64))
    data[at:end] = bytes(end - at)


def move(data: bytearray, at: int, rng: random.Random) -> None:
    source, length = rng.randrange(len(data)), rng.randrange(1, 200)
    data[at : at + length] = data[source : source + length]


def cut(data: bytearray, at: int, rng: random.Random) -> None:
    if rng.random() < 0.2:
        del data[at:]


_DAMAGES: tuple[Callable[[bytearray, int, random.Random], None], ...] = (
    flip, overwrite, zero, move, cut,
)  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> bytes:
    changed, damage = bytearray(data), rng.choice(_DAMAGES)
    for _ in range(rng.choice([1, 1, 3, 30])):
        # What stands at the start, such as headers and schemas, decides about the rest.
        end = min(len(changed), 8192) if rng.random() < 0.3 else len(changed)
        damage(changed, rng.randrange(max(end, 1)) if end > 1 else 0, rng)
        if len(changed) < 2:
            break
    return bytes(changed)


def import_one(path: Path, *, salvage: bool) -> None:
    output = path.with_name("flipped.duckdb")

    if path.suffix == ".sqlite":
        made = nsys.import_nsys([path], output, overwrite=True, progress=report_nothing)
    else:
        made = kineto.import_kineto(
            [path], output, salvage=salvage, overwrite=True, progress=report_nothing
        )
    ended(made)


def refusal(path: Path, *, salvage: bool) -> str:
    """Import a file; returns why it was refused, nothing if it was not."""
    try:
        import_one(path, salvage=salvage)
    except TracerError as error:
        return str(error)
    return ""


@contextmanager
def nothing_written(*_arguments: object, **_keywords: object) -> Iterator[SimpleNamespace]:
    yield SimpleNamespace(con=None, report=None)


@pytest.mark.parametrize("name", _FILES)
@pytest.mark.parametrize("stored", [True, False])
def test_damaged_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, stored: bool
) -> None:
    if not stored:
        for module in (kineto, nsys):
            monkeypatch.setattr(module, "write_import", nothing_written)
    for seed in range(_STORED if stored else _ONLY_READ):
        rng = random.Random(f"{name} {seed} {stored}")
        path = tmp_path / name
        path.write_bytes(damaged(_FILES[name], rng))
        words = refusal(path, salvage=rng.random() < 0.7)
        assert words.isprintable(), seed
