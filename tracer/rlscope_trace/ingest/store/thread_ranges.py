"""The push/pop ranges of threads: cut at what was recorded, phases where no range says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_trace._ingest import PhaseNames, ShimRangeReader, merge_phases
from rlscope_trace.ingest.store.operation_gaps import with_gaps
from rlscope_trace.ingest.store.operation_losses import Cuts
from rlscope_trace.ingest.writer.database_file import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rlscope_trace._ingest import ShimScan
    from rlscope_trace.ingest.store.operation_inserts import Columns
    from rlscope_trace.ingest.store.operation_keys import OperationKeys
    from rlscope_trace.ingest.store.thread_lives import Life, ThreadLives

# RLS_SHIM_UNSIGNED of cupti/records.h.
_UNSIGNED = 1
# In one call. What is more, a program wrote itself into our domain.
_MOST_STEPS = 1 << 32


class ThreadRanges:
    """Reads the ranges of one thread after the other."""

    def __init__(
        self, scan: ShimScan, keys: OperationKeys, cuts: Cuts, lives: ThreadLives, *, end_ns: int
    ) -> None:
        """`end_ns`: of the trace, 0 where it was cut off; what is cut off is added to `cuts`."""
        self._scan = scan
        self._lives = lives
        self._keys = keys
        self._cuts = cuts
        self._trace_end_ns = end_ns
        self._has_both = bool(keys.is_auto.any() and not keys.is_auto.all())

    def parts(self, life: Life, incarnations: list[int]) -> Iterator[Columns]:
        """Yield the ranges of a thread, a part at a time: a later one begins where this ended."""
        names = self._names(life, incarnations) if self._has_both else None
        for ranges, gaps in self._read(life, incarnations, self._cuts):
            merged = ranges if names is None else self._merged(ranges, names)
            yield with_gaps(merged, *gaps, self._keys.dropped) if len(gaps[0]) else merged

    def _read(
        self, life: Life, incarnations: list[int], cuts: Cuts
    ) -> Iterator[tuple[Columns, tuple[NDArray[np.int64], NDArray[np.int64]]]]:
        """Yield ranges, and the starts and ends of the times between which some were dropped."""
        reader = ShimRangeReader(self._scan, incarnations)
        while (part := reader.next(BATCH_ROWS)) is not None:
            gap_start_ns = np.maximum(part.pop("gap_start_ns"), life.start_ns)
            gap_end_ns = np.minimum(part.pop("gap_end_ns"), life.end_ns)
            yield self._clip(part, life, cuts), (gap_start_ns, gap_end_ns)

    def _clip(self, ranges: Columns, life: Life, cuts: Cuts) -> Columns:
        """Cut ranges at the ends of what was recorded of their thread."""
        start_ns, end_ns = ranges["start_ns"], ranges["end_ns"]
        is_damaged = (end_ns != 0) & (end_ns < start_ns)
        end_ns = life.before_exec(start_ns, np.where(end_ns == 0, life.end_ns, end_ns))
        is_inside = (end_ns > life.start_ns) & (start_ns < life.end_ns) & ~is_damaged
        cuts.damaged += _count(is_damaged)
        # Some phase is always under way: that one is cut is no news.
        is_reported = is_inside & (self._keys.is_auto[ranges["key"]] == 0)
        began_before = is_reported & (start_ns < life.start_ns)
        is_open = is_reported & ((ranges["is_open"] != 0) | (end_ns > life.end_ns))
        is_after = (start_ns >= life.end_ns) & ~is_damaged
        if self._trace_end_ns:
            is_late = self._lives.is_too_late(start_ns)
            cuts.too_late += _count(is_after & is_late)
            # Between the end of the trace and that of the recorder threads go on.
            cuts.of_no_thread += _count(is_after & (start_ns < self._trace_end_ns))
        else:
            # A recorder that was killed had read the rings more often than the states of threads.
            cuts.after_end += _count(is_after)
        cuts.began_before += _count(began_before)
        cuts.open_at_end += _count(is_open)
        clipped = {
            **self._counted(ranges),
            "start_ns": np.maximum(start_ns, life.start_ns),
            "end_ns": np.minimum(end_ns, life.end_ns),
        }
        return {name: column[is_inside] for name, column in clipped.items()}

    def _names(self, life: Life, incarnations: list[int]) -> PhaseNames:
        """Learn which names of the program stand for phases."""
        names = PhaseNames()
        for ranges, _ in self._read(life, incarnations, Cuts()):
            names.add(*self._columns(ranges, _outermost_first(ranges)))
        return names

    def _merged(self, ranges: Columns, names: PhaseNames) -> Columns:
        """Let the program's own ranges win over phases of the same meaning."""
        order = _outermost_first(ranges)
        columns = (*self._columns(ranges, order), ranges["environment_steps"][order])
        start_ns, end_ns, row, steps = merge_phases(*columns, names=names)
        chosen = {name: column[order[row]] for name, column in ranges.items()}
        return {**chosen, "start_ns": start_ns, "end_ns": end_ns, "environment_steps": steps}

    def _counted(self, ranges: Columns) -> Columns:
        """Take the payloads of phases for what they are: environment steps, -1 where not known."""
        payload, is_auto = ranges["payload"], self._keys.is_auto[ranges["key"]] != 0
        is_known = is_auto & (ranges["payload_type"] == _UNSIGNED) & (payload < _MOST_STEPS)
        return {
            **ranges,
            "payload_type": np.where(is_auto, 0, ranges["payload_type"]).astype(np.uint8),
            # Signed first: numpy 2.5 refuses -1 beside unsigned numbers.
            "environment_steps": np.where(is_known, payload.astype(np.int64), -1),
        }

    def _columns(self, ranges: Columns, order: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Return start_ns, end_ns, key and is_auto in an order."""
        names = ("start_ns", "end_ns", "key")
        return *(ranges[name][order] for name in names), self._keys.is_auto[ranges["key"][order]]


def _count(chosen: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(chosen))


def _outermost_first(ranges: Columns) -> NDArray[np.int64]:
    return np.lexsort((-ranges["end_ns"], ranges["start_ns"])).astype(np.int64)
