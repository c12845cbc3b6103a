"""Slices of a lane: those that are alike and touch are one, and short ones are drawn together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices in order, apart from each other, by what they are."""

    kind: str
    start_ns: Ints
    end_ns: Ints
    code: Ints

    def without(self, code: int) -> Slices:
        """Return all others."""
        kept = self.code != code
        return Slices(self.kind, self.start_ns[kept], self.end_ns[kept], self.code[kept])


def joined(kind: str, start_ns: Ints, end_ns: Ints, code: Ints) -> Slices:
    """Return the slices, of which those that touch and have the same code are one."""
    if not len(code):
        return Slices(kind, start_ns, end_ns, code)
    begins = np.ones(len(code), dtype=bool)
    begins[1:] = (code[1:] != code[:-1]) | (start_ns[1:] != end_ns[:-1])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(code)) - 1
    return Slices(kind, start_ns[first], end_ns[last], code[first])


def coarsened(row: Slices, least_ns: int, several: Callable[[int], int]) -> Slices:
    """Return the slices, of which those shorter than least_ns are one with their neighbours.

    several: the code of short ones of which those with a code have most of the time. They go
    together while the gaps between them are short, too, and they are not longer than least_ns.
    """
    length = row.end_ns - row.start_ns
    is_short = length < least_ns
    if not is_short.any():
        return row
    # A new group where a long slice is, after a long gap, and in each least_ns of time.
    gap = np.zeros(len(length), dtype=np.int64)
    gap[1:] = row.start_ns[1:] - row.end_ns[:-1]
    begins = ~is_short
    begins[1:] |= ~is_short[:-1] | (gap[1:] >= least_ns)
    begins[1:] |= row.start_ns[1:] // least_ns != row.start_ns[:-1] // least_ns
    begins[0] = True
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(length)) - 1
    group = np.cumsum(begins) - 1
    many = last > first
    code = row.code[first].copy()
    codes = int(row.code.max()) + 1
    kinds, at = np.unique(group * codes + row.code, return_inverse=True)
    weight = np.bincount(at, weights=length)
    of, own = np.divmod(kinds, codes)
    order = np.lexsort((own, weight, of))
    order = order[many[of[order]]]
    of, own = of[order], own[order]
    heaviest = np.flatnonzero(np.diff(of, append=-1))
    used, place = np.unique(own[heaviest], return_inverse=True)
    words = np.array([several(int(one)) for one in used], dtype=np.int64)
    code[of[heaviest]] = words[place]
    return Slices(row.kind, row.start_ns[first], np.maximum.reduceat(row.end_ns, first), code)
