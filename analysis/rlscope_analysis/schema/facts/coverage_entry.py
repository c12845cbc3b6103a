"""What a code of coverage means."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a code of coverage means."""

    sentence: str
    head: str = ""
    """What comes before it: once, where several with the same one come together."""
    is_part: bool = False
    """Where the kind was measured: some of it was not."""
    is_lack: bool = True
    """Where the kind was not measured: the trace lacks something, which a summary tells."""


def part(sentence: str) -> Coverage:
    """Return what of a kind that was measured was not."""
    return Coverage(sentence, is_part=True)
