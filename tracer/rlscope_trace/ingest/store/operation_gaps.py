"""Time of a thread of which operations were dropped: part of no range that is known."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rlscope_trace.ingest.store.operation_inserts import Columns

    Times = NDArray[np.int64]


def with_gaps(ranges: Columns, gap_start_ns: Times, gap_end_ns: Times, key: int) -> Columns:
    """Return the ranges of a thread with one of `key` wherever one may be missing.

    A gap lasts from the start of the first to the end of the last range that was dropped. A range
    that lies within it was recorded with all that was inside: its time is known.
    """
    order = np.lexsort((-ranges["end_ns"], ranges["start_ns"]))
    starts, ends = ranges["start_ns"][order], ranges["end_ns"][order]
    pieces: list[tuple[int, int]] = []
    for from_ns, to_ns in zip(gap_start_ns.tolist(), gap_end_ns.tolist(), strict=True):
        within = slice(*np.searchsorted(starts, (from_ns, to_ns)))
        pieces += _free(from_ns, to_ns, starts[within], ends[within])
    found = np.array(_united(pieces), dtype=np.int64).reshape(-1, 2)
    missing = {name: np.zeros(len(found), column.dtype) for name, column in ranges.items()}
    missing |= {"start_ns": found[:, 0], "end_ns": found[:, 1]}
    missing["key"] = np.full(len(found), key, ranges["key"].dtype)
    missing["environment_steps"] = np.full(len(found), -1, dtype=np.int64)
    return {name: np.concatenate((column, missing[name])) for name, column in ranges.items()}


def _united(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return pieces, in order, that do not overlap: those that touch lie in different ranges."""
    united: list[tuple[int, int]] = []
    for start_ns, end_ns in sorted(pieces):
        if united and start_ns < united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], end_ns)
        else:
            united.append((start_ns, end_ns))
    return united


def _free(from_ns: int, to_ns: int, starts: Times, ends: Times) -> list[tuple[int, int]]:
    """Return what ranges, which start inside a gap, in order, leave of it.

    Cut where one starts that ends behind the gap: what was dropped there was inside of it.
    """
    within = ends <= to_ns
    free_from = np.concatenate(([from_ns], np.maximum.accumulate(ends[within])))
    free_to = np.concatenate((starts[within], [to_ns]))
    cuts = starts[~within].tolist()
    pieces = []
    for start_ns, end_ns in zip(free_from.tolist(), free_to.tolist(), strict=True):
        edges = [start_ns, *(cut for cut in cuts if start_ns < cut < end_ns), end_ns]
        pieces += [(a, b) for a, b in pairwise(edges) if b > a]
    return pieces
