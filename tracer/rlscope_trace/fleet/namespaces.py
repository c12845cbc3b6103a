"""Processes as another process sees them: a container has numbers of its own for its pids."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rlscope_trace.procfs import status_words

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
                found[int(status_words(entry, "NSpid")[-1])] = int(entry.name)
    return found


def _namespace(entry: Path) -> Path:
    return (entry / "ns/pid").readlink()
