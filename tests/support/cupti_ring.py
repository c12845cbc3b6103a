"""Takes the place of the recorder for one program: its GPU records as the shim wrote them.

with GpuRecords() as records:
    run(program, env=records.environment(...))
records.statuses(), records.cells(ACTIVITY), ...
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import socket
import struct
import threading
from typing import TYPE_CHECKING, NamedTuple, Self

from lib.shim_records import numbers
from rlscope_trace.record import shims

if TYPE_CHECKING:
    from collections.abc import Iterator

# cupti/records.h
HEADER = struct.Struct("<QIIQIIIIII")
CELL_BYTES, SLOTS = numbers("CELL_BYTES", "SLOTS")
READER_AT = numbers("HEADER_BYTES")[0] // 2
LOST_AT = 56
THREAD, STRING = numbers("THREAD", "STRING")
CALL, ACTIVITY, OVERHEAD, MEMORY, STATUS, DEVICE, NAMED, CLOCK, LOST = numbers(
    "GPU_CALL", "GPU_ACTIVITY", "GPU_OVERHEAD", "GPU_MEMORY", "GPU_STATUS", "GPU_DEVICE",
    "GPU_NAMED", "GPU_CLOCK", "GPU_LOST",
)  # fmt: skip
ON, OFF, REFUSED = numbers("GPU_ON", "GPU_OFF", "GPU_REFUSED")
NOT_ASKED, YIELDED, NOT_STARTED, SHARED, CALL_FAILED, HELD = numbers(
    "GPU_NOT_ASKED", "GPU_YIELDED", "GPU_NOT_STARTED", "GPU_SHARED", "GPU_CALL_FAILED", "GPU_HELD"
)
NO_LIBRARY, LIBRARY_FAILED, LIBRARY_LACKS = numbers(
    "GPU_NO_LIBRARY", "GPU_LIBRARY_FAILED", "GPU_LIBRARY_LACKS"
)
KERNEL, MEMCPY, MEMSET, GRAPH, SYNC = numbers(
    "GPU_KERNEL", "GPU_MEMCPY", "GPU_MEMSET", "GPU_GRAPH", "GPU_SYNC"
)
MAX_NAMES_IN_CELL = 48


class Status(NamedTuple):
    state: int
    code: int
    api: int
    driver: int
    why: int
    subject: str
    library: str
    recorded: set[int]
    refused: set[int]
    is_late: bool
    has_clock: bool


class Call(NamedTuple):
    api: int
    tid: int
    start_ns: int
    end_ns: int
    name: str
    correlation: int
    function: int
    result: int


class Activity(NamedTuple):
    work: int
    detail: int
    device: int
    start_ns: int
    end_ns: int
    name: str
    bytes: int
    correlation: int
    context: int
    stream: int
    graph: int
    peer_device: int


class Memory:
    """The shared memory of one process; it outlives the process."""

    def __init__(self, fd: int) -> None:
        # The lock of a reader belongs to an opening of its own.
        self._lock = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._memory = mmap.mmap(fd, 0)
        os.close(fd)
        fields = HEADER.unpack_from(self._memory)
        assert fields[0] == int.from_bytes(b"RSLRING1", "little")
        _, _, self._header, _, _, self._slot, self._control, self._ring, self.pid, _ = fields
        self.texts = {0: ""}

    def slots(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield (thread id, cells) of each slot; the last thread's, if it had several."""
        used = HEADER.unpack_from(self._memory)[9]
        for slot in range(self._header, self._header + used * self._slot, self._slot):
            head = struct.unpack_from("<Q", self._memory, slot)[0]
            assert head <= self._ring, "somebody must empty a ring that runs over"
            data = slot + self._control
            cells = [self._memory[at : at + CELL_BYTES] for at in range(data, data + head, 64)]
            tid = 0
            for cell in cells:
                if struct.unpack_from("<H", cell)[0] == THREAD:
                    tid = struct.unpack_from("<I", cell, 4)[0]
            yield tid, list(self._without_texts(cells))

    def dropped(self) -> int:
        """Return how many records did not fit into their rings."""
        return self._count_at(24)

    def dropped_names(self) -> int:
        """Return how many names were not told."""
        return self._count_at(32)

    def _count_at(self, offset: int) -> int:
        used = HEADER.unpack_from(self._memory)[9]
        slots = range(self._header, self._header + used * self._slot, self._slot)
        return sum(struct.unpack_from("<Q", self._memory, slot + offset)[0] for slot in slots)

    def set_reader(self, reader: int) -> None:
        struct.pack_into("<I", self._memory, READER_AT, reader)

    def set_owners(self, tid: int) -> None:
        """Make all rings those of one thread; 0: of none."""
        for slot in range(SLOTS):
            struct.pack_into("<I", self._memory, self._header + slot * self._slot + 16, tid)

    def lost(self) -> int:
        """Return how many records found no ring."""
        return int(struct.unpack_from("<Q", self._memory, LOST_AT)[0])

    def be_killed(self) -> None:
        """Leave everything as a reader that was attached, and is killed."""
        struct.pack_into("<II", self._memory, READER_AT, 1, 1)
        self.unlock()

    def unlock(self) -> None:
        """Be no reader any more; what was read stays."""
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def _without_texts(self, cells: list[bytes]) -> Iterator[bytes]:
        at = 0
        while at < len(cells):
            kind, length, _, text = struct.unpack_from("<HHIQ", cells[at])
            more = 0
            if kind == STRING:
                more = max(0, -(-(length - MAX_NAMES_IN_CELL) // CELL_BYTES))
                whole = b"".join([cells[at][16:], *cells[at + 1 : at + 1 + more]])
                self.texts[text] = whole[:length].decode()
            else:
                yield cells[at]
            at += 1 + more


class GpuRecords:
    """Listens as a recorder does; every process that announces itself hands over its memory."""

    def __init__(self) -> None:
        self.session = f"rlscope-test-{os.getpid()}-{secrets.token_hex(4)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(f"\0{self.session}")
        self._socket.listen(16)
        self.memories: list[Memory] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        for memory in self.memories:
            memory.unlock()

    def environment(self, **variables: str) -> dict[str, str]:
        """Return what makes the programs of a recording load the shim into their driver."""
        return {
            "CUDA_INJECTION64_PATH": str(shims.LIBRARY),
            "RLSCOPE_SESSION": self.session,
            **variables,
        }

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                _, fds, _, _ = socket.recv_fds(connection, 8, 1)
                self.memories += [Memory(fd) for fd in fds]

    def set_reader(self, reader: int) -> None:
        """Say who reads: 0: nobody."""
        for memory in self.memories:
            memory.set_reader(reader)

    def cells(self, kind: int) -> list[tuple[Memory, int, bytes]]:
        """Return (memory, thread id, cell) of each record of a kind."""
        return [
            (memory, tid, cell)
            for memory in self.memories
            for tid, cells in memory.slots()
            for cell in cells
            if struct.unpack_from("<H", cell)[0] == kind
        ]

    def statuses(self) -> list[Status]:
        found = []
        for memory, _, cell in self.cells(STATUS):
            (state, code, _, api, driver, subject, library, recorded, refused, *flags, why) = (
                struct.unpack("<xxHIQIIQQQQBBH4x", cell)
            )
            found.append(
                Status(
                    state, code, api, driver, why, memory.texts[subject], memory.texts[library],
                    _bits(recorded), _bits(refused), *map(bool, flags),
                )
            )  # fmt: skip
        return found

    def status(self) -> Status:
        """Return the only one."""
        (status,) = self.statuses()
        return status

    def calls(self) -> list[Call]:
        found = [(m, struct.unpack("<xxHIQQQIII20x", cell)) for m, _, cell in self.cells(CALL)]
        return [Call(*fields[:4], m.texts[fields[4]], *fields[5:]) for m, fields in found]

    def activities(self, work: int | None = None) -> list[Activity]:
        found = [
            (m, struct.unpack("<xxBBIQQQQIIIIIxxxx", cell)) for m, _, cell in self.cells(ACTIVITY)
        ]
        made = [Activity(*fields[:5], m.texts[fields[5]], *fields[6:]) for m, fields in found]
        return [activity for activity in made if work in (None, activity.work)]


def _bits(value: int) -> set[int]:
    return {bit for bit in range(64) if value >> bit & 1}
