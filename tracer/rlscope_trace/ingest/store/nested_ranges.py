"""Ranges of threads, nested by their times: depths and parents."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace._ingest import nest
from rlscope_trace.ingest.writer.trace_stats import TraceStat

_MAX_STORED_DEPTH = 65_535


@dataclass(frozen=True, slots=True)
class NestedRanges:
    """Ranges in the order of (thread_id, start_ns, -end_ns); the columns are equally long."""

    order: NDArray[np.int64]
    """Per row, its place in the columns that were given."""
    thread_id: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    depth: NDArray[np.int32]
    """How many ranges are open around it."""
    parent: NDArray[np.int64]
    """Row of the range opened last that is still open, -1: none."""
    crossing_count: int
    """Ranges that end after one that is around them: not properly nested, but kept."""
    first_crossing_ns: int

    def losses(self, record: str) -> list[TraceStat]:
        """Return what trace_stat has to say of them: crossings, and depths beyond the column."""
        too_deep = int(np.count_nonzero(self.depth > _MAX_STORED_DEPTH))
        stats = (
            TraceStat("not_nested", self.crossing_count, self.first_crossing_ns, record=record),
            TraceStat("depth_cut", too_deep, record=record),
        )
        return [stat for stat in stats if stat.count]

    def stored_depth(self) -> NDArray[np.uint16]:
        """Return the depths as native_call_coded stores them."""
        return np.minimum(self.depth, _MAX_STORED_DEPTH).astype(np.uint16)


def nest_ranges(
    thread_id: NDArray[Any], start_ns: NDArray[Any], end_ns: NDArray[Any]
) -> NestedRanges:
    """Sort ranges and find which lies in which; of equal ones the first given is outermost."""
    order = np.lexsort((-end_ns, start_ns, thread_id)).astype(np.int64)
    threads = np.ascontiguousarray(thread_id[order], dtype=np.int32)
    starts = np.ascontiguousarray(start_ns[order], dtype=np.int64)
    ends = np.ascontiguousarray(end_ns[order], dtype=np.int64)
    depth, parent, crossings, first_ns = nest(threads, starts, ends)
    return NestedRanges(order, threads, starts, ends, depth, parent, crossings, first_ns)
