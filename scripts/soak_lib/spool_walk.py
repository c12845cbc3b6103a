"""Reads a spool by the comments of its headers alone: what a trace of it must hold.

They are bpf/records.h, cupti/records.h, tracer/native/spool/format.h, tracer/native/shim/spool.h.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lib.shim_records import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

THREAD, CYCLE, CLOSE, EXEC, NAME, EXIT, CLOCK, CALL, GIL_RELEASE, SAMPLE, STACK = range(1, 12)
OTHER_RUN, QUOTA, MESSAGE = 12, 13, 14
_HEADER = Path(__file__).parents[2] / "bpf" / "records.h"
_KINDS = int(re.findall(r"RLS_REC_KINDS = (\d+)", _HEADER.read_text())[0])
_NEVER_NS = 2**63 - 1
_DISCARDED, _LENGTH = 1 << 30, (1 << 30) - 1

_SHIM_HEADER = 16
_BLOCK = struct.Struct("<IHHIIQ")
_CELLS_BLOCK, _OPEN_BLOCK = 2, 4
_OPEN_BYTES, _STRING_HEAD = 48, 16
_CELL_BYTES, _RANGE, _MARK, _STRING, _OPEN = numbers(
    "CELL_BYTES", "RANGE", "MARK", "STRING", "OPEN"
)
_DOMAIN_AT, _OWN_DOMAIN = 32, b"rlscope"


@dataclass(slots=True)
class Walked:
    """What is readable in a spool."""

    counts: Counter[int] = field(default_factory=Counter)
    """Records of records.bin, by kind."""
    threads: set[int] = field(default_factory=set)
    """Threads of whose states something is known."""
    running: list[tuple[int, int, int]] = field(default_factory=list)
    """thread_id, start_ns, end_ns."""
    calls: list[tuple[int, int]] = field(default_factory=list)
    """thread_id, start_ns."""
    samples: list[tuple[int, int]] = field(default_factory=list)
    """thread_id, ts_ns."""
    end_ns: int = 0
    """0: the recording was cut off."""
    reported: tuple[int, ...] = ()
    """Records by kind, as progress.bin counts them."""
    reported_bytes: int = 0
    file_bytes: int = 0
    shim_records: int = 0
    ranges: int = 0
    marks_by_domain: Counter[int] = field(default_factory=Counter)
    own_domain: int = 0
    """What stands for the domain of the phases; 0: none was reported."""

    @property
    def marks(self) -> int:
        """Marks of the program; those of the phases tell names and failures, and are no marks."""
        return self.marks_by_domain.total() - self.marks_by_domain[self.own_domain or -1]

    @property
    def records(self) -> int:
        """All of them."""
        return sum(self.counts.values()) + self.shim_records


def walk(spool: Path) -> Walked:
    """Read all that can be read of a spool."""
    walked = Walked()
    _read_progress(spool / "progress.bin", walked)
    limit_ns = walked.end_ns or _NEVER_NS
    data = (spool / "records.bin").read_bytes()
    walked.file_bytes = len(data)
    for record in _frames(data):
        _read(record, limit_ns, walked)
    if (spool / "shim.bin").exists():
        _read_shim((spool / "shim.bin").read_bytes(), limit_ns, walked)
    return walked


def _read_progress(path: Path, walked: Walked) -> None:
    data = path.read_bytes() if path.exists() else b""
    # Magic, version, CPUs; by kind; bytes, drained_ns, end_ns.
    layout = struct.Struct(f"<QII{_KINDS}Q3Q")
    if len(data) < layout.size:
        return
    _, _, _, *numbers = layout.unpack_from(data)
    walked.reported = tuple(numbers[:_KINDS])
    walked.reported_bytes, _, walked.end_ns = numbers[_KINDS:]


def _frames(data: bytes) -> Iterator[bytes]:
    position = 16
    while position + 8 <= len(data):
        length = struct.unpack_from("<I", data, position)[0]
        size = length & _LENGTH
        step = 8 + (size + 7 & ~7)
        if not size or position + step > len(data):
            return
        if not length & _DISCARDED:
            yield data[position + 8 : position + 8 + size]
        position += step


def _read(record: bytes, limit_ns: int, walked: Walked) -> None:
    kind = struct.unpack_from("<H", record)[0]
    walked.counts[kind] += 1
    thread = struct.unpack_from("<I", record, 4)[0]
    # A thread that was created after the end of the trace is not in it.
    if kind in (THREAD, CYCLE, CLOSE) and struct.unpack_from("<Q", record, 8)[0] < limit_ns:
        walked.threads.add(thread)
    if kind == CYCLE:
        _, _, start_ns, end_ns = struct.unpack_from("<4Q", record, 8)
        if start_ns < min(end_ns, limit_ns):
            walked.running.append((thread, start_ns, min(end_ns, limit_ns)))
    elif kind == CLOSE:
        start_ns = struct.unpack_from("<Q", record, 24)[0]
        if walked.end_ns and 0 < start_ns < limit_ns:
            walked.running.append((thread, start_ns, limit_ns))
    elif kind in (CALL, SAMPLE):
        start_ns = struct.unpack_from("<Q", record, 8)[0]
        if start_ns < limit_ns:
            (walked.calls if kind == CALL else walked.samples).append((thread, start_ns))


def _read_shim(data: bytes, limit_ns: int, walked: Walked) -> None:
    position = _SHIM_HEADER
    while position + _BLOCK.size <= len(data):
        _, kind, _, _, size, _ = _BLOCK.unpack_from(data, position)
        position += _BLOCK.size
        if position + size > len(data):
            return
        block = data[position : position + size]
        position += size
        if kind == _CELLS_BLOCK:
            _read_cells(block, limit_ns, walked)
        elif kind == _OPEN_BLOCK:
            starts = (struct.unpack_from("<Q", block, at)[0] for at in range(0, size, _OPEN_BYTES))
            walked.ranges += sum(start_ns < limit_ns for start_ns in starts)


def _read_cells(block: bytes, limit_ns: int, walked: Walked) -> None:
    position = 0
    while position + _CELL_BYTES <= len(block):
        kind, length = struct.unpack_from("<HH", block, position)
        walked.shim_records += 1
        # What was marked between the end of the trace and that of the recorder is in neither.
        if kind in (_RANGE, _OPEN, _MARK) and _start_of(block, position) < limit_ns:
            walked.ranges += kind != _MARK
            domain = struct.unpack_from("<Q", block, position + _DOMAIN_AT)[0]
            walked.marks_by_domain[domain] += kind == _MARK
        if kind == _STRING and block[position + _STRING_HEAD :][:length] == _OWN_DOMAIN:
            walked.own_domain = struct.unpack_from("<Q", block, position + 8)[0]
        text = _STRING_HEAD + length if kind == _STRING else 0
        position += max(-(-text // _CELL_BYTES), 1) * _CELL_BYTES


def _start_of(block: bytes, position: int) -> int:
    (start_ns,) = struct.unpack_from("<Q", block, position + 8)
    return int(start_ns)
