"""What the shim reported, read from the spool byte by byte, by the comments of the headers alone.

They are cupti/records.h and tracer/native/shim/spool.h. Not the decoder of the product: what is
checked here must not be read by what is checked.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lib.shim_records import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CELL_BYTES, _STRING = numbers("CELL_BYTES", "STRING")
_FILE_HEADER_BYTES = 16
_BLOCK = struct.Struct("<IHHIIQ")
_BLOCK_MAGIC = int.from_bytes(b"SBLK", "little")
_SOURCE, _CELLS, _COUNTERS, _LOST = 1, 2, 3, 6
_CALL, _ACTIVITY, _OVERHEAD, _STATUS, _DEVICE, _CLOCK, _LOST_GPU = numbers(
    "GPU_CALL", "GPU_ACTIVITY", "GPU_OVERHEAD", "GPU_STATUS", "GPU_DEVICE", "GPU_CLOCK", "GPU_LOST"
)
_INSIDE_BYTES = 48
# What is left of CLOCK_REALTIME: ns since 1970. CLOCK_MONOTONIC is as old as the machine is up.
REALTIME_NS = 10**18

KERNEL, MEMCPY, MEMSET, GRAPH, SYNC = numbers(
    "GPU_KERNEL", "GPU_MEMCPY", "GPU_MEMSET", "GPU_GRAPH", "GPU_SYNC"
)
ON, OFF, REFUSED = numbers("GPU_ON", "GPU_OFF", "GPU_REFUSED")
(YIELDED,) = numbers("GPU_YIELDED")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the CUDA runtime (api 5) or driver (4); times as CUPTI gave them."""

    pid: int
    api: int
    tid: int
    start_ns: int
    end_ns: int
    name: str
    correlation: int
    result: int


@dataclass(frozen=True, slots=True)
class Activity:
    """What a GPU did."""

    pid: int
    work: int
    device: int
    start_ns: int
    end_ns: int
    name: str
    bytes: int
    correlation: int
    stream: int
    graph: int


@dataclass(frozen=True, slots=True)
class Status:
    """How the recording of GPU activity went in a process."""

    pid: int
    state: int
    code: int
    api: int
    driver: int
    why: int
    subject: str
    library: str
    recorded: int
    refused: int
    is_late: bool
    has_clock: bool

    def __str__(self) -> str:
        return f"state {self.state}, code {self.code}, why {self.why} {self.subject}"


@dataclass(slots=True)
class Records:
    """All records of a spool, by kind, in the order they were read."""

    calls: list[Call] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    clocks: list[tuple[int, int, int, int]] = field(default_factory=list)
    """width, monotonic, realtime, CUPTI; ns."""
    overheads: list[tuple[int, int, int]] = field(default_factory=list)
    """CUPTI's kind, start, end; ns."""
    lost: dict[int, int] = field(default_factory=dict)
    """What CUPTI or the shim lost, by enum rls_shim_gpu_loss."""
    dropped: int = 0
    """Records that found no room in a ring."""

    def of(self, work: int) -> list[Activity]:
        """Return the activities of one kind of work."""
        return [activity for activity in self.activities if activity.work == work]

    def status(self) -> Status | None:
        """Return the last status."""
        return self.statuses[-1] if self.statuses else None


def read(path: Path) -> Records:
    """Return the records of a shim.bin; raises ValueError where it is damaged."""
    blocks = list(_blocks(path.read_bytes()))
    cells = list(_cells(blocks))
    names = dict(_names(cells))
    records = Records(dropped=_dropped(blocks))
    for pid, cell in cells:
        _take(records, pid, cell, names)
    return records


def _blocks(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield kind, source, slot and payload."""
    at = _FILE_HEADER_BYTES
    while at + _BLOCK.size <= len(data):
        magic, kind, slot, source, size, _ts_ns = _BLOCK.unpack_from(data, at)
        at += _BLOCK.size
        if magic != _BLOCK_MAGIC:
            raise ValueError(f"no block at byte {at - _BLOCK.size}")
        yield kind, source, slot, data[at : at + size]
        at += size


def _cells(blocks: list[tuple[int, int, int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield pid and bytes of every record; a text that goes on behind its cell is one record."""
    pids: dict[int, int] = {}
    for kind, source, _, payload in blocks:
        if kind == _SOURCE:
            pids[source] = struct.unpack_from("<I", payload)[0]
        elif kind == _CELLS:
            yield from ((pids.get(source, 0), cell) for cell in _records_of(payload))


def _dropped(blocks: list[tuple[int, int, int, bytes]]) -> int:
    """Return how many records found no room; those of a slot are reported again and again."""
    counters = {
        (source, slot): sum(struct.unpack_from("<QQ", payload))
        for kind, source, slot, payload in blocks
        if kind == _COUNTERS
    }
    return sum(counters.values())


def _records_of(payload: bytes) -> Iterator[bytes]:
    at = 0
    while at + CELL_BYTES <= len(payload):
        kind, length = struct.unpack_from("<HH", payload, at)
        size = CELL_BYTES
        if kind == _STRING and length > _INSIDE_BYTES:
            size += -(-(length - _INSIDE_BYTES) // CELL_BYTES) * CELL_BYTES
        yield payload[at : at + size]
        at += size


def _names(cells: list[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    yield 0, ""
    for _, cell in cells:
        kind, length, _cut, hashed = struct.unpack_from("<HHIQ", cell)
        if kind == _STRING:
            yield hashed, cell[16 : 16 + length].decode(errors="replace")


def _take(records: Records, pid: int, cell: bytes, names: dict[int, str]) -> None:
    (kind,) = struct.unpack_from("<H", cell)
    if kind == _CALL:
        api, tid, start, end, name, correlation, _cbid, result = struct.unpack_from(
            "<HIQQQIII", cell, 2
        )
        records.calls.append(
            Call(pid, api, tid, start, end, names.get(name, ""), correlation, result)
        )
    elif kind == _ACTIVITY:
        work, _, device, start, end, name, size, correlation, _, stream, graph = struct.unpack_from(
            "<BBIQQQQIIII", cell, 2
        )
        records.activities.append(
            Activity(
                pid, work, device, start, end, names.get(name, ""), size, correlation, stream, graph
            )
        )
    elif kind == _STATUS:
        records.statuses.append(_status(pid, cell, names))
    elif kind == _CLOCK:
        records.clocks.append(struct.unpack_from("<IQQQ", cell, 4))
    elif kind == _OVERHEAD:
        what, _, start, end = struct.unpack_from("<HIQQ", cell, 2)
        records.overheads.append((what, start, end))
    elif kind == _LOST_GPU:
        what, _, count = struct.unpack_from("<HIQ", cell, 2)
        records.lost[what] = records.lost.get(what, 0) + count


def _status(pid: int, cell: bytes, names: dict[int, str]) -> Status:
    state, code, _, api, driver, subject, library, recorded, refused, late, clock, why = (
        struct.unpack_from("<HIQIIQQQQBBH", cell, 2)
    )
    return Status(
        pid, state, code, api, driver, why, names.get(subject, ""), names.get(library, ""),
        recorded, refused, bool(late), bool(clock),
    )  # fmt: skip


def demangled(name: str) -> str:
    """Return the name of a C++ function as people write it; others as they are."""
    demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    made = demangle(name.encode(), None, None, ctypes.byref(status))
    if not made:
        return name
    text = ctypes.string_at(made).decode(errors="replace")
    free = ctypes.CDLL(None).free
    free(ctypes.c_void_p(made))
    return text


def monotonic(records: Records, ts_ns: int) -> int:
    """Return a time of a record on CLOCK_MONOTONIC, by the reading of the clocks closest to it."""
    if ts_ns < REALTIME_NS:
        return ts_ns
    if not records.clocks:
        raise ValueError("times are of CLOCK_REALTIME, and the clocks were never read")
    nearest = min(records.clocks, key=lambda clock: abs(clock[2] - ts_ns))
    return ts_ns - nearest[2] + nearest[1]
