"""The cost of instruments by windows with and without them, as a program timed itself in these."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from itertools import islice, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# After a switch: caches, and what the OS kernel puts off.
_GUARD_NS = 5_000_000
# Chunks of steps that a window must hold to count.
LEAST_CHUNKS = 5

Chunk = tuple[int, int, int]
"""Start and end of some steps of a program, and the CPU time they took; ns."""
Window = tuple[bool, int, int]
"""Whether the instruments were there, start, end; ns."""


def windows_of(rows: Sequence[dict[str, Any]]) -> list[Window]:
    """Return the intervals with everything and without; not while that changed.

    rows: of calibration_window. `all` is from the first change to the last one, which `changing`
    tells of.
    """
    away = [(row["start_ns"], row["end_ns"]) for row in rows if row["probes"] == "all"]
    changing = [(row["start_ns"], row["end_ns"]) for row in rows if row["probes"] == "changing"]
    taken = dict(changing)
    brought = {end_ns: start_ns for start_ns, end_ns in changing}
    windows: list[Window] = []
    before_ns = None
    for start_ns, end_ns in away:
        if before_ns is not None:
            windows.append((True, before_ns, start_ns))
        windows.append((False, taken.get(start_ns, start_ns), brought.get(end_ns, end_ns)))
        before_ns = end_ns
    return windows


def window_means(
    chunks: Sequence[Chunk], windows: Sequence[Window]
) -> list[tuple[bool, float | None]]:
    """Return of each window whether it was on, and the mean CPU time of the chunks inside it.

    None: there are too few. Chunks that reach out of their window count nowhere.
    """
    means: list[tuple[bool, float | None]] = []
    for is_on, start_ns, end_ns in windows:
        inside = [cpu_ns for _, _, cpu_ns in chunks_in(chunks, start_ns, end_ns)]
        means.append((is_on, statistics.mean(inside) if len(inside) >= LEAST_CHUNKS else None))
    return means


def chunks_in(chunks: Sequence[Chunk], start_ns: int, end_ns: int) -> Iterator[Chunk]:
    """Yield the chunks that lie in a window, once that has settled."""
    first = bisect_left(chunks, start_ns + _GUARD_NS, key=itemgetter(0))
    return takewhile(lambda chunk: chunk[1] <= end_ns, islice(chunks, first, None))


def added_percent(
    means: Sequence[tuple[bool, float | None]], less_ns: float = 0.0
) -> tuple[float, ...]:
    """Return of each window that was off what the windows around it took more, in percent.

    less_ns: is taken off these first.
    """
    return tuple(
        100 * ((with_ns - less_ns) / without_ns - 1) for with_ns, without_ns in neighbours(means)
    )


def neighbours(means: Sequence[tuple[bool, float | None]]) -> Iterator[tuple[float, float]]:
    """Yield, for each window that was off, the mean of the two around it, and its own."""
    for (_, before), (is_on, own), (_, after) in zip(means, means[1:], means[2:], strict=False):
        if not is_on and before and own and after:
            yield (before + after) / 2, own


def control_percent(means: Sequence[tuple[bool, float | None]]) -> tuple[float, ...]:
    """Return the same of windows that were all off: each against the ones before and after it."""
    off = [(True, mean) for is_on, mean in means if not is_on]
    return added_percent([(index % 2 == 0, mean) for index, (_, mean) in enumerate(off)])
