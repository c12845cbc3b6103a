"""The segments of a spool that keeps the end of a recording: names, chain, one file of all.

Each begins with what was so at that time: those from one of them on tell all that happened since.
A segment that a kill left without its header is none; the layouts are those of
tracer/native/spool/format.h and tracer/native/shim/spool.h.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_trace.spool.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

SEGMENT_MAGIC = int.from_bytes(b"SLLSEGM1", "little")
SHIM_SEGMENT_MAGIC = int.from_bytes(b"SHSEGM1\0", "little")
_NAME = re.compile(r"(?:records|progress|shim)-(\d{1,9})\.bin")
_HEADER = struct.Struct("<QIIQQQQQQ")
_SHIM_HEADER = struct.Struct("<QIIQQQ")
# A recorder keeps six at most.
_MOST = 64
_IMPOSSIBLE = 2**63
_COPIED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """Records from one instant on, and what was so at that instant."""

    number: int
    previous: int
    cut_ns: int
    keyframe_bytes: int
    missed_runs: int
    failed_updates: int


def records_name(number: int) -> str:
    """Return the name of the file of the records of a segment."""
    return f"records-{number}.bin"


def progress_name(number: int) -> str:
    """Return the name of the file of what was counted while a segment was written."""
    return f"progress-{number}.bin"


def shim_name(number: int) -> str:
    """Return the name of the file of what the shims recorded in a segment."""
    return f"shim-{number}.bin"


def segment_files(directory: Path) -> list[str]:
    """Return the names of all files of segments, whole or not; the records last."""
    names = [name for name in os.listdir(directory) if _NAME.fullmatch(name)]  # noqa: PTH208
    return sorted(names, key=lambda name: (name.startswith("records"), name))


def drop_before(directory: Path, number: int) -> None:
    """Delete the files of all segments before one; the records first. Raises OSError."""
    for name in reversed(segment_files(directory)):
        if _number(name) < number:
            (directory / name).unlink(missing_ok=True)


def segment_bytes(directory: Path, before: int) -> int:
    """Return the size of the files of all segments before one."""
    names = [name for name in segment_files(directory) if _number(name) < before]
    return sum((directory / name).stat().st_size for name in names)


def _number(name: str) -> int:
    found = _NAME.fullmatch(name)
    return int(found[1]) if found is not None else -1


def find_segments(directory: Path, wire_version: int) -> tuple[Segment, ...]:
    """Return the segments that follow each other up to the last one, in their order."""
    numbers = sorted(_numbers(directory, "records"), reverse=True)
    chain: list[Segment] = []
    for number in numbers[:_MOST]:
        with suppress(OSError, struct.error):
            found = _segment(directory / records_name(number), wire_version)
            if found is None or found.number != number:
                continue
            if chain and chain[0].previous != number:
                break
            chain.insert(0, found)
            if found.previous >= number:
                break
    return tuple(chain)


def _numbers(directory: Path, kind: str) -> list[int]:
    return [_number(name) for name in segment_files(directory) if name.startswith(kind)]


def _segment(path: Path, wire_version: int) -> Segment | None:
    """Read the header of a segment; None where it is none."""
    with open_regular(path) as file:
        header = _HEADER.unpack(file.read(_HEADER.size))
        size = os.fstat(file.fileno()).st_size
    magic, version, header_bytes, *numbers = header
    if (magic, version, header_bytes) != (SEGMENT_MAGIC, wire_version, _HEADER.size):
        return None
    found = Segment(*numbers)
    if max(numbers) >= _IMPOSSIBLE or found.keyframe_bytes > size - _HEADER.size:
        return None
    return found


def join_records(directory: Path, segments: Sequence[Segment], header: bytes, into: Path) -> None:
    """Write a records.bin of segments: what was so when they began, and what happened since.

    header: that of a records.bin. Raises OSError.
    """
    with into.open("xb") as file:
        file.write(header)
        for place, segment in enumerate(segments):
            begin = _HEADER.size + (segment.keyframe_bytes if place else 0)
            _append(directory / records_name(segment.number), begin, file)


def join_shims(directory: Path, first: Segment, into: Path) -> bool:
    """Write a shim.bin of the segments that go with a segment and all later ones.

    False where there is none. Raises OSError.
    """
    numbers = sorted(number for number in _numbers(directory, "shim") if number >= first.number)
    found = [(number, _shim_header(directory / shim_name(number))) for number in numbers[:_MOST]]
    sound = [(number, *header) for number, header in found if header is not None]
    if not sound or sound[0][0] != first.number:
        return False
    with into.open("xb") as file:
        file.write(_SHIM_SPOOL_HEADER.pack(_SHIM_SPOOL_MAGIC, sound[0][1], _SHIM_SPOOL_HEADER.size))
        for place, (number, _, keyframe_bytes) in enumerate(sound):
            begin = _SHIM_HEADER.size + (keyframe_bytes if place else 0)
            _append(directory / shim_name(number), begin, file)
    return True


_SHIM_SPOOL_HEADER = struct.Struct("<QII")
_SHIM_SPOOL_MAGIC = int.from_bytes(b"LSSHIM1\0", "little")


def _shim_header(path: Path) -> tuple[int, int] | None:
    """Return the version of a segment, and the bytes of what it tells first."""
    with open_regular(path) as file:
        header = file.read(_SHIM_HEADER.size)
        size = os.fstat(file.fileno()).st_size
    if len(header) < _SHIM_HEADER.size:
        return None
    magic, version, header_bytes, _, _, keyframe_bytes = _SHIM_HEADER.unpack(header)
    is_sound = (magic, header_bytes) == (SHIM_SEGMENT_MAGIC, _SHIM_HEADER.size)
    return (version, keyframe_bytes) if is_sound and keyframe_bytes <= size else None


def _append(path: Path, begin: int, file: BinaryIO) -> None:
    """Add what follows in a file; its holes stay holes: a file may be said to be of any size."""
    with open_regular(path) as source:
        descriptor = source.fileno()
        size = os.fstat(descriptor).st_size
        moved = file.tell() - begin
        for start, end in _written(descriptor, begin, size):
            file.seek(moved + start)
            for at in range(start, end, _COPIED_BYTES):
                file.write(os.pread(descriptor, min(_COPIED_BYTES, end - at), at))
        file.truncate(moved + max(begin, size))
        file.seek(0, os.SEEK_END)


def _written(descriptor: int, begin: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield from where to where a file holds something, in its order."""
    while begin < size:
        try:
            begin = os.lseek(descriptor, begin, os.SEEK_DATA)
            end = min(os.lseek(descriptor, begin, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            # A file system that does not know what was written.
            end = size
        if begin < end:
            yield begin, end
        begin = max(end, begin + 1)
