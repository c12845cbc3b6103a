"""Processes as another process sees them: a container has numbers of its own for its pids."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def pids_of_peer(peer: int) -> dict[int, int] | None:
    """Return the pids here by the pids in the namespace of a process; None where it is ours.

    Raises OSError where the process is gone.
    """
    theirs = _namespace(_PROC / str(peer))
    if theirs == _namespace(_PROC / "self"):
        return None
    found = {}
    for entry in _PROC.iterdir():
        # Of those that end meanwhile nothing is known.
        with suppress(OSError, ValueError, IndexError):
            if entry.name.isdecimal() and _namespace(entry) == theirs:
                found[int(_field(entry, "NSpid")[-1])] = int(entry.name)
    return found


def uids_of(pid: int) -> set[int]:
    """Return the real, effective, saved and file system user of a process; none: it is gone."""
    try:
        return set(map(int, _field(_PROC / str(pid), "Uid")))
    except (OSError, IndexError):
        return set()


def _namespace(entry: Path) -> Path:
    return (entry / "ns/pid").readlink()


def _field(entry: Path, name: str) -> list[str]:
    for line in (entry / "status").read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.split()
    return []
