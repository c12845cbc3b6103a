"""What a process takes of the machine, and what the OS kernel takes for itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_KERNEL = ("Slab", "SUnreclaim", "Percpu", "VmallocUsed")


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a process has: memory, open files, threads, mappings."""

    rss_bytes: int
    anonymous_bytes: int
    """Of rss_bytes, what no file and nobody else has a part in."""
    fds: int
    threads: int
    mappings: int

    def less(self, other: Footprint) -> Footprint:
        """Return how much more that is than another."""
        return Footprint(
            self.rss_bytes - other.rss_bytes,
            self.anonymous_bytes - other.anonymous_bytes,
            self.fds - other.fds,
            self.threads - other.threads,
            self.mappings - other.mappings,
        )

    def __str__(self) -> str:
        """Return it for the eye."""
        return (
            f"{self.rss_bytes / 1e6:.1f} MB ({self.anonymous_bytes / 1e6:.2f} of its own),"
            f" {self.fds} fds, {self.threads} threads, {self.mappings} mappings"
        )


def footprint(pid: int) -> Footprint:
    """Return what a process has now."""
    folder = Path(f"/proc/{pid}")
    return Footprint(
        rss_bytes=_kilobytes(folder / "status", "VmRSS") * 1024,
        anonymous_bytes=_kilobytes(folder / "status", "RssAnon") * 1024,
        fds=len([*(folder / "fd").iterdir()]),
        threads=len([*(folder / "task").iterdir()]),
        mappings=len((folder / "maps").read_text().splitlines()),
    )


def os_kernel_memory() -> dict[str, int]:
    """Return the memory of the OS kernel in bytes, by kind."""
    return {name: _kilobytes(Path("/proc/meminfo"), name) * 1024 for name in _KERNEL}


def _kilobytes(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0
