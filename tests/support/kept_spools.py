"""Spools of recordings of which the last seconds are kept: watched, cut shorter, compared."""

import shutil
from pathlib import Path

from recording import query

STATES = """
SELECT t.tid, greatest(s.start_ns, $1), s.end_ns, s.state, s.cpu
FROM thread_state AS s JOIN thread AS t USING (thread_id)
WHERE s.end_ns > $1 ORDER BY ALL
"""


def segments(spool: Path) -> list[int]:
    """Return the numbers of the segments of a spool, the oldest first."""
    return sorted(int(path.stem.split("-")[1]) for path in spool.glob("records-*.bin"))


def last_segment(spool: Path) -> int:
    """Return the number of the newest segment; -1: there is none yet."""
    return max(segments(spool), default=-1)


def size(spool: Path, pattern: str = "*") -> int:
    """Return the bytes of the files of a spool; one that goes meanwhile counts as none."""
    return sum(_size(path) for path in spool.glob(pattern))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def without_oldest(spool: Path, copy: Path, count: int) -> Path:
    """Copy a spool without its oldest segments, as the recorder drops them."""
    shutil.copytree(spool, copy)
    copy.chmod(0o700)
    for number in segments(copy)[:count]:
        for kind in ("records", "progress", "shim"):
            (copy / f"{kind}-{number}.bin").unlink()
    return copy


def states_from(trace: Path, from_ns: int) -> list[tuple[int, int, int, str, int]]:
    """Return all thread states from a time on, cut there."""
    return query(trace, STATES, [from_ns])
