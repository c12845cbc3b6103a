"""Builds shim.bin of a spool byte by byte, from the comments of the two headers alone.

They are cupti/records.h and tracer/native/shim/spool.h.

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

from lib.shim_records import numbers

if TYPE_CHECKING:
    from pathlib import Path

(VERSION,) = numbers("VERSION")


def header(version: int = VERSION) -> bytes:
    return struct.pack("<8sII", b"LSSHIM1\0", version, 16)


BLOCK_MAGIC = int.from_bytes(b"SBLK", "little")
SOURCE, CELLS, COUNTERS, OPEN, TID, LOST = range(1, 7)
THREAD, RANGE, START, END, MARK, STRING, CATEGORY, THREAD_OPEN, GAP = numbers(
    "THREAD", "RANGE", "START", "END", "MARK", "STRING", "CATEGORY", "OPEN", "GAP"
)
CALL, ACTIVITY, OVERHEAD, MEMORY, STATUS, DEVICE, NAMED, CLOCK, GPU_LOST = numbers(
    "GPU_CALL", "GPU_ACTIVITY", "GPU_OVERHEAD", "GPU_MEMORY", "GPU_STATUS", "GPU_DEVICE",
    "GPU_NAMED", "GPU_CLOCK", "GPU_LOST",
)  # fmt: skip
DRIVER, RUNTIME = numbers("GPU_DRIVER", "GPU_RUNTIME")
KERNEL, MEMCPY, MEMSET, GRAPH, SYNC = numbers(
    "GPU_KERNEL", "GPU_MEMCPY", "GPU_MEMSET", "GPU_GRAPH", "GPU_SYNC"
)
ON, OFF, REFUSED = numbers("GPU_ON", "GPU_OFF", "GPU_REFUSED")
NOT_ASKED, YIELDED, CALL_FAILED, HELD = numbers(
    "GPU_NOT_ASKED", "GPU_YIELDED", "GPU_CALL_FAILED", "GPU_HELD"
)
UUID = bytes(range(16))
# CUPTI's kinds of records that are recorded by default, as bits.
RECORDED = sum(1 << kind for kind in (1, 2, 4, 5, 10, 17, 38, 51))


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
    reported: set[str] = field(default_factory=set)

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
        self.reported = set()
        inner = pid if inner_pid is None else inner_pid
        self.block(SOURCE, struct.pack("<IIQII", pid, inner, 1, reader, 0))

    def cell(self, record: bytes) -> None:
        assert len(record) == 64
        self.cells += record

    def thread(self, *, tid: int, ts_ns: int) -> None:
        self.cell(struct.pack("<HHIQ48x", THREAD, 0, tid, ts_ns))
        # A block is written after its records.
        self.ts_ns = max(self.ts_ns, ts_ns)

    def string(self, text: str, *, cut: bool = False) -> None:
        data = text.encode()
        cells = struct.pack("<HHIQ", STRING, len(data), cut, hash_of(text)) + data
        self.cells += cells.ljust(-(-len(cells) // 64) * 64, b"\0")

    def _tell(self, *texts: str) -> None:
        for text in texts:
            if text and text not in self.reported:
                self.reported.add(text)
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

    def gap(self, start_ns: int, end_ns: int) -> None:
        """Tell that ranges were dropped, none of which lay outside."""
        self.event(GAP, "", start_ns, end_ns)

    def counters(
        self,
        *,
        dropped: int = 0,
        names: int = 0,
        pops: int = 0,
        deep: int = 0,
        gap: tuple[int, int, int] = (0, 0, 0),
        former: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        """Tell what a slot counted; gap: start_ns, end_ns, tid of what is not told yet."""
        self.flush()
        counts = struct.pack("<6Q", dropped, names, 0, pops, deep, 5)
        self.block(COUNTERS, counts + struct.pack("<QQI4xQQI4x", *gap, *former))

    def call(
        self,
        tid: int,
        start_ns: int,
        end_ns: int,
        name: str = "cudaLaunchKernel",
        *,
        correlation: int = 0,
        api: int = RUNTIME,
        function: int = 211,
        result: int = 0,
    ) -> None:
        self._tell(name)
        times = (tid, start_ns, end_ns, hash_of(name), correlation, function, result)
        self.cell(struct.pack("<HHIQQQIII20x", CALL, api, *times))

    def activity(
        self, start_ns: int, end_ns: int, name: str = "", *, work: int = KERNEL, **more: int
    ) -> None:
        self._tell(name)
        first = (ACTIVITY, work, more.get("detail", 0), more.get("device", 0))
        middle = (start_ns, end_ns, hash_of(name), more.get("size", 0))
        last = [more.get(key, 0) for key in ("correlation", "context", "stream", "graph", "peer")]
        self.cell(struct.pack("<HBBIQQQQIIIII4x", *first, *middle, *last))

    def overhead(self, what: int, start_ns: int, end_ns: int, *, tid: int = 0) -> None:
        self.cell(struct.pack("<HHIQQ40x", OVERHEAD, what, tid, start_ns, end_ns))

    def memory(self, ts_ns: int, size: int, address: int, *, release: bool, **more: int) -> None:
        first = (MEMORY, release, more.get("memory_kind", 3), more.get("device", 0))
        last = (more.get("correlation", 0), more.get("context", 1))
        self.cell(struct.pack("<HBBIQQQII24x", *first, ts_ns, size, address, *last))

    def status(
        self, state: int = ON, why: int = 0, subject: str = "", *, ts_ns: int = 1, **more: int
    ) -> None:
        library = "/lib/libcupti.so.13"
        self._tell(subject, library)
        versions = (more.get("api", 130001), more.get("driver", 13000))
        masks = (more.get("recorded", RECORDED), more.get("refused", 0))
        flags = (more.get("is_late", 0), more.get("has_clock", 1))
        self.cell(
            struct.pack(
                "<HHIQIIQQQQBBH4x", STATUS, state, more.get("code", 0), ts_ns, *versions,
                hash_of(subject), hash_of(library), *masks, *flags, why,
            )
        )  # fmt: skip

    def device(self, number: int, name: str, *, uuid: bytes = UUID, **more: int) -> None:
        self._tell(name)
        self.cell(
            struct.pack(
                "<HBBIQQ16sIB3xIII4x", DEVICE, 9, 0, number, hash_of(name),
                more.get("memory_bytes", 10**11), uuid, more.get("multiprocessors", 132),
                more.get("is_mig", 0), more.get("clock_khz", 0), more.get("memory_clock_khz", 0),
                more.get("memory_bus_bits", 0),
            )
        )  # fmt: skip

    def named(self, context: int, stream: int | None, name: str = "", *, device: int = 0) -> None:
        self._tell(name)
        place = (NAMED, stream is not None, device, context, stream or 0, hash_of(name))
        self.cell(struct.pack("<HHIIIQ40x", *place))

    def clock(
        self, monotonic_ns: int, realtime_ns: int, cupti_ns: int = 0, *, width_ns: int = 0
    ) -> None:
        readings = (width_ns, monotonic_ns, realtime_ns, cupti_ns)
        self.cell(struct.pack("<HHIQQQ32x", CLOCK, 0, *readings))

    def lost(self, what: int, count: int, *, activity: int = 0, ts_ns: int = 0) -> None:
        self.cell(struct.pack("<HHIQQ40x", GPU_LOST, what, activity, count, ts_ns))

    def data(self, *, version: int = VERSION) -> bytes:
        self.flush()
        return header(version) + b"".join(self.blocks)

    def write(self, spool: Path, *, version: int = VERSION) -> None:
        (spool / "shim.bin").write_bytes(self.data(version=version))
