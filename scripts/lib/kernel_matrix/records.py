"""A reader of spools that shares nothing with the package, so that it cannot share a mistake."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# bpf/records.h
THREAD, CYCLE, EXEC, NAME, EXIT = 1, 2, 4, 5, 6
SLEEPING, DEAD = 1, 3
WAKER_INTERRUPT, WAKER_UNKNOWN, WAKER_TIMER = -1, -3, -4
UNKNOWN_STATUS = -0x80000000
ENTERED_FOUND = 1
# tracer/native/spool/format.h
HEADER_BYTES = 16
FRAME_BYTES = 8
LENGTH_MASK = (1 << 30) - 1
DISCARDED = 1 << 30


@dataclass(slots=True)
class Cycle:
    """rls_rec_cycle."""

    off_state: int
    out_state: int
    off_ns: int
    wake_ns: int
    in_ns: int
    out_ns: int
    waker: int


@dataclass(slots=True)
class Thread:
    """Everything that was recorded of one thread."""

    thread_id: int
    tid: int = 0
    tgid: int = 0
    entered: int = -1
    creator: int = 0
    parent_tgid: int = 0
    cycles: list[Cycle] = field(default_factory=list)
    execs: list[tuple[str, bytes]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)


def text(raw: bytes) -> str:
    """Return a NUL-terminated string."""
    return raw.split(b"\0")[0].decode(errors="replace")


def read_records(path: Path) -> dict[int, Thread]:
    """Return the threads of a spool by thread_id."""
    data = path.read_bytes()
    threads: dict[int, Thread] = defaultdict(lambda: Thread(0))
    offset = HEADER_BYTES
    while offset + FRAME_BYTES <= len(data):
        (word,) = struct.unpack_from("<I", data, offset)
        length = word & LENGTH_MASK
        start = offset + FRAME_BYTES
        body = data[start : start + length]
        offset = start + (length + 7) // 8 * 8
        kind, thread_id = struct.unpack_from("<H2xI", body)
        # Later kinds tell of no thread, or of none that is asked for here.
        if not word & DISCARDED and thread_id and kind <= EXIT:
            thread = threads[thread_id]
            thread.thread_id = thread_id
            take(thread, kind, body)
    return threads


def take(thread: Thread, kind: int, body: bytes) -> None:
    """Add one record to its thread."""
    if kind == THREAD:
        thread.entered = body[2]
        fields = struct.unpack_from("<6I", body, 24)
        tid, tgid, ns_tid, ns_tgid, thread.creator, thread.parent_tgid = fields
        thread.tid, thread.tgid = ns_tid or tid, ns_tgid or tgid
    elif kind == CYCLE:
        thread.cycles.append(Cycle(body[2], body[3], *struct.unpack_from("<4Qi", body, 8)))
    elif kind == EXEC:
        (args_len,) = struct.unpack_from("<H", body, 2)
        thread.execs.append((text(body[32:160]), body[160 : 160 + args_len]))
    elif kind == NAME:
        thread.names.append(text(body[16:32]))
    elif kind == EXIT:
        thread.exits.append(struct.unpack_from("<i", body, 16)[0])
