"""Reads the rings of a shim, as little of them as tests of late attach need: names and counts."""

import mmap
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lib.shim_records import numbers

# cupti/records.h: the header's geometry, where the collector says that it reads, and the kinds.
HEADER = struct.Struct("<QIIQIIIIII")
READER_AT = numbers("HEADER_BYTES")[0] // 2
CELL_BYTES, RANGE, STRING = numbers("CELL_BYTES", "RANGE", "STRING")


def find_memfd(pid: int) -> Path | None:
    """Return the path of the shim's memory among the descriptors of a process."""
    for path in Path(f"/proc/{pid}/fd").iterdir():
        # Meanwhile it may have been closed.
        with suppress(FileNotFoundError):
            if "memfd:rlscope-ring" in str(path.readlink()):
                return path
    return None


class LateRing:
    """The shim's memory of a process, mapped; it outlives the process."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        fields = HEADER.unpack_from(self._memory)
        assert fields[0] == int.from_bytes(b"RSLRING1", "little")
        _, _, self._header, _, _, self._slot, self._control, self._ring = fields[:8]

    def listen(self) -> None:
        """Say that somebody reads: from here on ranges are recorded."""
        struct.pack_into("<I", self._memory, READER_AT, 1)

    def close(self) -> None:
        self._memory.close()

    def _cells(self) -> Iterator[bytes]:
        used = HEADER.unpack_from(self._memory)[9]
        for slot in range(self._header, self._header + used * self._slot, self._slot):
            head = struct.unpack_from("<Q", self._memory, slot)[0]
            assert head <= self._ring, "the test lets the ring overflow"
            data = slot + self._control
            yield from (self._memory[at : at + CELL_BYTES] for at in range(data, data + head, 64))

    def ranges(self) -> Counter[tuple[str, str]]:
        """Return how many ranges of each (domain, name) have ended."""
        texts, found = {0: ""}, []
        for cell in self._cells():
            kind, length = struct.unpack_from("<HH", cell)
            if kind == STRING:
                texts[struct.unpack_from("<Q", cell, 8)[0]] = cell[16 : 16 + length].decode()
            elif kind == RANGE:
                found.append(struct.unpack_from("<QQ", cell, 24))
        return Counter((texts.get(domain, "?"), texts.get(name, "?")) for name, domain in found)
