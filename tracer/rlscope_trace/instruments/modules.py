"""The files whose entry points are probed: when to scan for them, and which sites they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlscope_trace.instruments.process import FileKey, Mapping

# A module fills its tables when it is imported, and some create functions later on: how long after
# a scan the next one comes.
_RESCANS_NS = (1_000_000_000, 5_000_000_000, 30_000_000_000)


@dataclass(slots=True)
class Module:
    """One file with a layer, whichever processes map it: probes belong to the file."""

    path: str
    layer: str
    scans: int = 0
    due_ns: int = 0
    sites: dict[int, int] = field(default_factory=dict)
    """Offset in the file -> site_id."""

    def is_due(self, now_ns: int) -> bool:
        """Tell whether it is to be scanned for entry points."""
        return self.scans <= len(_RESCANS_NS) and now_ns >= self.due_ns

    def scanned(self, now_ns: int) -> None:
        """Note a scan."""
        if self.scans < len(_RESCANS_NS):
            self.due_ns = now_ns + _RESCANS_NS[self.scans]
        self.scans += 1


def file_path(pid: int, mapping: Mapping) -> str:
    """Return where a mapped file can be opened, also one of a container, or deleted."""
    _, _, _, start, end, _ = mapping
    return f"/proc/{pid}/map_files/{start:x}-{end:x}"


def files_of(mappings: tuple[Mapping, ...]) -> dict[FileKey, Mapping]:
    """Return one mapping of each file."""
    return {(mapping[1], mapping[2]): mapping for mapping in reversed(mappings)}
