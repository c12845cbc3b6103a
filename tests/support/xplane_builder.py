"""Builds small profiles of JAX (XSpace) and programs of XLA (HloProto) for tests.

builder = XplaneBuilder()
thread = builder.plane("/host:CPU").line("main", number=7)
thread.event("dot.1", 10, 20, hlo_op="dot.1", hlo_module="jit_train", program_id=3)
builder.program(3, program("jit_train", [instruction(1, "dot.1", "jit(train)/jvp(f)/dot")]))
path = builder.write(tmp_path / "host.xplane.pb")
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from finalising import ended, report_nothing
from rlscope_trace.ingest.importers.xplane import import_xplane

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Return a message of these fields, in this order."""
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            found += varint(number << 3 | 2) + varint(len(data)) + data
    return found


def instruction(
    number: int,
    name: str,
    op_name: str = "",
    *,
    opcode: str = "add",
    file: str = "",
    frame: int = 0,
    operands: Sequence[int] = (),
    called: Sequence[int] = (),
) -> bytes:
    metadata = message((2, op_name), (3, file), (15, frame))
    packed = b"".join(map(varint, operands))
    return message(
        (1, name), (2, opcode), (7, metadata), (35, number), (36, packed),
        *((38, one) for one in called),
    )  # fmt: skip


def program(
    name: str, instructions: Sequence[bytes], *further: Sequence[bytes], files: Sequence[str] = ()
) -> bytes:
    """Return a HloProto; its computations are numbered from 1, its frames after `files`."""
    computations = [
        (3, message(*((2, one) for one in part), (5, number)))
        for number, part in enumerate((instructions, *further), 1)
    ]
    frames = message(
        *((1, file) for file in files),
        *((3, message((1, number))) for number in range(1, len(files) + 1)),
        *((4, message((1, number))) for number in range(1, len(files) + 1)),
    )
    return message((1, message((1, name), *computations, (17, frames))))


@dataclass
class Line:
    plane: Plane
    name: str
    number: int
    events: list[bytes] = field(default_factory=list)

    def event(self, name: str, start_ns: float, end_ns: float, **stats: int | str) -> None:
        start_ps, end_ps = round(start_ns * 1000), round(end_ns * 1000)
        self.events.append(
            message(
                (1, self.plane.number_of(self.plane.names, name)), (2, start_ps),
                (3, end_ps - start_ps),
                *((4, self.plane.stat(key, value)) for key, value in stats.items()),
            )
        )  # fmt: skip


@dataclass
class Plane:
    name: str
    lines: list[Line] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)
    own: list[bytes] = field(default_factory=list)
    programs: list[bytes] = field(default_factory=list)

    def line(self, name: str, *, number: int = 1) -> Line:
        self.lines.append(Line(self, name, number))
        return self.lines[-1]

    def number_of(self, table: dict[str, int], name: str) -> int:
        return table.setdefault(name, len(table) + 1)

    def stat(self, key: str, value: int | str | bytes) -> bytes:
        kind = 4 if isinstance(value, int) else 5 if isinstance(value, str) else 6
        return message((1, self.number_of(self.stats, key)), (kind, value))

    def encode(self) -> bytes:
        return message(
            (2, self.name),
            *((3, message((1, line.number), (2, line.name), *((4, e) for e in line.events)))
              for line in self.lines),
            *((4, message((1, n), (2, message((1, n), (2, name)))))
              for name, n in self.names.items()),
            *((4, one) for one in self.programs),
            *((5, message((1, n), (2, message((1, n), (2, name)))))
              for name, n in self.stats.items()),
            *((6, one) for one in self.own),
        )  # fmt: skip


@dataclass
class XplaneBuilder:
    planes: list[Plane] = field(default_factory=list)

    def plane(self, name: str) -> Plane:
        self.planes.append(Plane(name))
        return self.planes[-1]

    def program(self, number: int, proto: bytes) -> None:
        plane = self.plane("/host:metadata")
        stat = plane.stat("Hlo Proto", proto)
        plane.programs.append(message((1, number), (2, message((1, number), (5, stat)))))

    def clock(self, realtime_ns: int) -> None:
        plane = self.plane("Task Environment")
        plane.own.append(plane.stat("profile_start_time", realtime_ns))

    def write(self, path: Path) -> Path:
        path.write_bytes(message(*((1, plane.encode()) for plane in self.planes), (4, "box")))
        return path


@contextmanager
def imported(*paths: Path, hlo: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Import profiles; yields the open trace."""
    output = paths[0].with_name("imported.duckdb")
    ended(import_xplane(paths, output, hlo=hlo, overwrite=True, progress=report_nothing))
    with duckdb.connect(str(output), read_only=True) as con:
        yield con


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return con.execute(query).fetchall()
