"""What cannot be imported of JAX: one error with a hint, bounded memory, nothing left behind."""

from __future__ import annotations

import lzma
import os
import random
from typing import TYPE_CHECKING

import pytest

from import_child import run_child
from rlscope_trace.errors import UsageError
from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.xplane_file import read_file
from rlscope_trace.ingest.importers.xplane_phases import phases_of
from trace_builder import REPOSITORY
from xplane_builder import XplaneBuilder, imported, instruction, message, program, varint

if TYPE_CHECKING:
    from pathlib import Path

REAL = REPOSITORY / "tests" / "data" / "xplane" / "epochs2.xplane.pb.xz"
_GROWTH_MIB = 512


def failure(path: Path, hlo: Path | None = None) -> ImportFileError:
    before = sorted(path.parent.iterdir())
    with pytest.raises(ImportFileError) as caught, imported(path, hlo=hlo):
        pass
    assert sorted(path.parent.iterdir()) == before
    assert caught.value.hint
    return caught.value


def small() -> XplaneBuilder:
    builder = XplaneBuilder()
    thread = builder.plane("/host:CPU").line("main")
    thread.event("a", 10, 20, hlo_op="a", hlo_module="jit_f", program_id=3)
    builder.program(3, program("jit_f", [instruction(1, "a", "jvp(f)")], files=["/x.py"]))
    return builder


class TestFilesOfAnotherKind:
    def test_missing_and_pipe(self, tmp_path: Path) -> None:
        assert "cannot read" in str(failure(tmp_path / "none.xplane.pb"))
        os.mkfifo(tmp_path / "pipe.xplane.pb")
        assert "is no file" in str(failure(tmp_path / "pipe.xplane.pb"))

    @pytest.mark.parametrize(
        "data", [b"", b"{}", b'{"traceEvents": []}', b"\x00" * 64, b"\xff" * 64]
    )
    def test_other_bytes(self, tmp_path: Path, data: bytes) -> None:
        path = tmp_path / "a.xplane.pb"
        path.write_bytes(data)
        assert "is no profile of JAX" in str(failure(path))

    def test_no_event(self, tmp_path: Path) -> None:
        builder = XplaneBuilder()
        builder.plane("/host:CPU").line("main")
        assert "holds no event" in str(failure(builder.write(tmp_path / "a.xplane.pb")))

    def test_folders(self, tmp_path: Path) -> None:
        folder = tmp_path / "runs"
        folder.mkdir()
        assert "holds no file" in str(failure(folder))
        for name in ("1", "2"):
            (folder / name).mkdir()
            small().write(folder / name / "host.xplane.pb")
        error = failure(folder)
        assert "2 profiles" in str(error)
        assert str(folder / "2") in (error.hint or "")
        with imported(folder / "1") as con:
            assert con.execute("SELECT count(*) FROM native_call").fetchall() == [(1,)]

    def test_named_twice(self, tmp_path: Path) -> None:
        path = small().write(tmp_path / "a.xplane.pb")
        with pytest.raises(UsageError), imported(path, path):
            pass

    def test_several_without_a_clock(self, tmp_path: Path) -> None:
        paths = [small().write(tmp_path / f"{name}.xplane.pb") for name in "ab"]
        with pytest.raises(ImportFileError, match="one clock"), imported(*paths):
            pass

    def test_dumps(self, tmp_path: Path) -> None:
        builder = XplaneBuilder()
        builder.plane("/host:CPU").line("main").event("a", 10, 20, hlo_op="a", hlo_module="f")
        path = builder.write(tmp_path / "a.xplane.pb")
        assert "cannot read" in str(failure(path, tmp_path / "none"))
        (tmp_path / "dump").mkdir()
        # Its writer would be waited for.
        os.mkfifo(tmp_path / "dump" / "b.hlo.pb")
        assert "holds no program" in str(failure(path, tmp_path / "dump"))
        (tmp_path / "dump" / "a.hlo.pb").write_bytes(b"\xff" * 10)
        assert "is damaged" in str(failure(path, tmp_path / "dump"))


class TestDamage:
    def read(self, path: Path) -> None:
        """Read what may be damaged: it is read, or there is one error."""
        try:
            file = read_file(path, lambda _done, _size: None)
        except ImportFileError:
            return
        for one in file.programs.values():
            phases_of(one)

    def test_cut_anywhere(self, tmp_path: Path) -> None:
        path = small().write(tmp_path / "a.xplane.pb")
        data = path.read_bytes()
        for size in range(len(data)):
            path.write_bytes(data[:size])
            self.read(path)

    def test_changed_anywhere(self, tmp_path: Path) -> None:
        path = small().write(tmp_path / "a.xplane.pb")
        data = path.read_bytes()
        for at in range(len(data)):
            for bit in (0, 3, 7):
                path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
                self.read(path)

    def test_a_real_one_changed(self, tmp_path: Path) -> None:
        data = bytearray(lzma.decompress(REAL.read_bytes()))
        path, chance = tmp_path / "a.xplane.pb", random.Random(5)
        for _ in range(3):
            changed = bytearray(data)
            for _ in range(8):
                changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(changed)
            self.read(path)


class TestSizes:
    def test_a_length_that_is_a_lie(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xplane.pb"
        path.write_bytes(b"\x0a" + varint(1 << 62) + b"x")
        assert "cut off" in str(failure(path))

    def test_a_line_of_a_sparse_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xplane.pb"
        line, size = 700 << 20, 1 << 30
        with path.open("wb") as file:
            file.write(b"\x0a" + varint(line + 7) + b"\x1a" + varint(line + 1))
            file.truncate(size)
        assert "192 MiB" in str(failure(path))

    def test_very_many_parts(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xplane.pb"
        path.write_bytes(message((1, b"\x1a\x00" * 600_000)))
        assert "500,000" in str(failure(path))

    @pytest.mark.parametrize("of", ["operands", "instructions", "computations", "names"])
    def test_a_program_of_empty_parts(self, tmp_path: Path, of: str) -> None:
        many = 2 << 20
        built = {
            "operands": message((3, message((2, message((36, b"\x01" * many)))))),
            "instructions": message((3, b"\x12\x00" * (many // 2))),
            "computations": b"\x1a\x00" * (many // 2),
            "names": message((17, b"\x0a\x00" * (many // 2))),
        }
        builder = small()
        builder.program(4, message((1, built[of])))
        seen = run_child("xplane", builder.write(tmp_path / "a.xplane.pb"))
        assert seen.status == 0
        assert "too big" in seen.words
        assert seen.peak_mib < _GROWTH_MIB

    def test_very_many_names(self, tmp_path: Path) -> None:
        entry = b"".join(
            message((4, message((1, n), (2, message((1, n), (2, f"n{n}"))))))
            for n in range(110_000)
        )
        line = message((3, message((1, 1), (4, message((1, 9), (2, 0), (3, 9000))))))
        path = tmp_path / "many.xplane.pb"
        path.write_bytes(message((1, message((2, "/host:CPU")) + line + entry)))
        seen = run_child("xplane", path)
        assert seen.status == 0
        least = run_child("xplane", small().write(tmp_path / "b.xplane.pb")).peak_mib
        assert seen.peak_mib < least + _GROWTH_MIB

    def test_a_hole_is_no_field_after_field(self, tmp_path: Path) -> None:
        path = tmp_path / "a.xplane.pb"
        line = 100 << 20
        with path.open("wb") as file:
            file.write(b"\x0a" + varint(line + 5) + b"\x1a" + varint(line))
            file.truncate(file.tell() + line)
        seen = run_child("xplane", path)
        assert seen.status == 1
        assert "a field without a number" in seen.words

    @pytest.mark.parametrize("field", [5, 6])
    def test_names_and_stats_that_are_holes_are_not_kept(self, tmp_path: Path, field: int) -> None:
        path, size, count = tmp_path / "a.xplane.pb", 150 << 20, 6
        # Each a message with one field that nobody knows, of zeros.
        inner = b"\x7a" + varint(size)
        head = bytes([field << 3 | 2]) + varint(len(inner) + size) + inner
        with path.open("wb") as file:
            file.write(b"\x0a" + varint(count * (len(head) + size)))
            for _ in range(count):
                file.write(head)
                file.seek(size, os.SEEK_CUR)
            file.truncate()
        assert run_child("xplane", path).peak_mib < _GROWTH_MIB

    def test_what_all_names_take_is_bounded(self, tmp_path: Path) -> None:
        names = 2_000
        entry = b"".join(
            message((4, message((1, n), (2, message((1, n), (2, f"{n:060000}"))))))
            for n in range(names)
        )
        events = b"".join(message((4, message((1, n), (2, 0), (3, 9000)))) for n in range(names))
        path = tmp_path / "long.xplane.pb"
        path.write_bytes(message((1, message((2, "/host:CPU")) + message((3, events)) + entry)))
        seen = run_child("xplane", path)
        assert seen.status == 0
        assert "names" in seen.words
        assert seen.peak_mib < _GROWTH_MIB
