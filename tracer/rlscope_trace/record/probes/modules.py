"""The files whose entry points are probed: when to scan for them, and which sites they have."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlscope_trace import _capture

if TYPE_CHECKING:
    from rlscope_trace.record.probes.process import FileKey, Mapping

# A module fills its tables when it is imported, and some create functions later on: how long after
# a scan the next one comes.
_RESCANS_NS = (3_000_000_000,)
# How long a scan is put off while its process goes on loading modules.
_PATIENCE_NS = 2_000_000_000


@dataclass(slots=True)
class Module:
    """One file with a layer, whichever processes map it: probes belong to the file."""

    path: str
    layer: str
    seen_ns: int
    """When it was first seen mapped."""
    scans: int = 0
    due_ns: int = 0
    fd: int = -1
    """The file, open as long as it is probed."""
    sites: dict[int, int] = field(default_factory=dict)
    """Offset in the file -> site_id."""
    probed: int = 0
    """How many of them the OS kernel took."""

    def is_due(self, now_ns: int, *, is_settled: bool) -> bool:
        """Tell whether it is to be scanned for entry points.

        is_settled: its process has loaded what it was loading.
        """
        is_ready = is_settled or now_ns - self.seen_ns > _PATIENCE_NS
        return is_ready and self.scans <= len(_RESCANS_NS) and now_ns >= self.due_ns

    def scanned(self, now_ns: int) -> None:
        """Note a scan."""
        if self.scans < len(_RESCANS_NS):
            self.due_ns = now_ns + _RESCANS_NS[self.scans]
        self.scans += 1


def open_file(pid: int, mapping: Mapping) -> int:
    """Open a mapped file, also one of a container, or deleted; OSError where that cannot be."""
    path, _, inode, start, end, _ = mapping
    fd = _capture.open_mapped(pid, start, end, inode, path)
    if fd < 0:
        raise OSError(errno.ESTALE, "it cannot be opened, or a program serves it")
    return fd


def path_of(fd: int) -> str:
    """Return a path that leads to an open file, whatever becomes of its name and its process."""
    return f"/proc/self/fd/{fd}"


def files_of(mappings: tuple[Mapping, ...]) -> dict[FileKey, Mapping]:
    """Return one mapping of each file."""
    return {(mapping[1], mapping[2]): mapping for mapping in reversed(mappings)}
