"""Builds shim.bin of a spool byte by byte, from the comments of the two headers alone.

They are cupti/records.h and tracer/native/shim_spool.h.

shim = ShimBuilder()
shim.source(pid=10)
shim.thread(tid=10, ts_ns=100)
shim.range("step", 110, 120)
shim.write(tmp_path / "spool")
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEADER = struct.pack("<8sII", b"LSSHIM1\0", 1, 16)
BLOCK_MAGIC = int.from_bytes(b"SBLK", "little")
SOURCE, CELLS, COUNTERS, OPEN, TID, LOST = range(1, 7)
THREAD, RANGE, START, END, MARK, STRING, CATEGORY, THREAD_OPEN = range(1, 9)


def hash_of(text: str) -> int:
    """Return any number that stands for a text; the shim's own hash is not needed to read it."""
    return zlib.crc32(text.encode()) + 1 if text else 0


@dataclass
class ShimBuilder:
    blocks: list[bytes] = field(default_factory=list)
    cells: bytes = b""
    slot: int = 0
    source_number: int = -1
    ts_ns: int = 1
    told: set[str] = field(default_factory=set)

    def block(self, kind: int, payload: bytes) -> None:
        head = struct.pack(
            "<IHHIIQ", BLOCK_MAGIC, kind, self.slot, max(self.source_number, 0), len(payload),
            self.ts_ns,
        )  # fmt: skip
        self.blocks.append(head + payload)

    def flush(self) -> None:
        """Make a block of the records so far."""
        if self.cells:
            self.block(CELLS, self.cells)
        self.cells = b""

    def source(self, *, pid: int, inner_pid: int | None = None, reader: int = 1) -> None:
        self.flush()
        self.source_number += 1
        self.told = set()
        inner = pid if inner_pid is None else inner_pid
        self.block(SOURCE, struct.pack("<IIQII", pid, inner, 1, reader, 0))

    def cell(self, record: bytes) -> None:
        assert len(record) == 64
        self.cells += record

    def thread(self, *, tid: int, ts_ns: int) -> None:
        self.cell(struct.pack("<HHIQ48x", THREAD, 0, tid, ts_ns))

    def string(self, text: str, *, cut: bool = False) -> None:
        data = text.encode()
        cells = struct.pack("<HHIQ", STRING, len(data), cut, hash_of(text)) + data
        self.cells += cells.ljust(-(-len(cells) // 64) * 64, b"\0")

    def _tell(self, *texts: str) -> None:
        for text in texts:
            if text and text not in self.told:
                self.told.add(text)
                self.string(text)

    def event(self, kind: int, name: str, start_ns: int, end_ns: int, **more: int | str) -> None:
        domain = str(more.get("domain", ""))
        self._tell(name, domain)
        numbers = {key: value for key, value in more.items() if isinstance(value, int)}
        small = (kind, numbers.get("depth", 0), numbers.get("payload_type", 0))
        large = (hash_of(name), hash_of(domain), numbers.get("payload", 0))
        times = (numbers.get("category", 0), start_ns, end_ns)
        last = (numbers.get("color", 0), numbers.get("flags", 0), numbers.get("id", 0))
        self.cell(struct.pack("<HBBIQQQQQIIQ", *small, *times, *large, *last))

    def range(self, name: str, start_ns: int, end_ns: int, **more: int | str) -> None:
        self.event(RANGE, name, start_ns, end_ns, **more)

    def category(self, number: int, name: str, *, domain: str = "") -> None:
        self._tell(name)
        self.cell(struct.pack("<HHIQQ40x", CATEGORY, 0, number, hash_of(domain), hash_of(name)))

    def open(self, *entries: tuple[str, int], ts_ns: int) -> None:
        """Tell which ranges (name, start_ns) are open at an instant, the outermost first."""
        self._tell(*(name for name, _ in entries))
        self.flush()
        self.ts_ns = ts_ns
        packed = [
            struct.pack("<QQQQIIB7x", start, hash_of(name), 0, 0, 0, 0, 0)
            for name, start in entries
        ]
        self.block(OPEN, b"".join(packed))

    def counters(self, *, dropped: int = 0, names: int = 0, pops: int = 0, deep: int = 0) -> None:
        self.flush()
        self.block(COUNTERS, struct.pack("<6Q", dropped, names, 0, pops, deep, 5))

    def data(self) -> bytes:
        self.flush()
        return HEADER + b"".join(self.blocks)

    def write(self, spool: Path) -> None:
        (spool / "shim.bin").write_bytes(self.data())
