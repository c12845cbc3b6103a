"""What the tables of GPU records lack, as rows of trace_stat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_trace._ingest import shim_gpu_cut_names, shim_gpu_lost, shim_gpu_repeated
from rlscope_trace.ingest.store.gpu_devices import INT64_MAX, int64
from rlscope_trace.ingest.store.gpu_facts import NOT_FETCHED
from rlscope_trace.ingest.store.thread_lives import AFTER, ELSEWHEN, NOBODY, OUTSIDE
from rlscope_trace.ingest.writer.trace_stats import TraceStat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from rlscope_trace._ingest import ShimGpuReader, ShimScan
    from rlscope_trace.ingest.store.gpu_facts import GpuFacts
    from rlscope_trace.ingest.store.thread_lives import ThreadLives

# Of rls_shim_gpu_lost.what.
_DROPPED, _UNREADABLE, _NO_BUFFER = 1, 2, 3
_CODES = {
    _DROPPED: "cupti_buffers_full",
    _UNREADABLE: "cupti_kinds_unknown",
    _NO_BUFFER: "cupti_without_memory",
    NOT_FETCHED: "cupti_held_records",
}
# For so many kinds of records it is reported how many could not be read.
_MAX_KINDS = 8


@dataclass(slots=True)
class GpuCuts:
    """What was left out while the tables were made."""

    end_ns: int
    """Of the trace; 0: its recorder was killed."""
    calls_of_no_thread: int = 0
    of_no_process: int = 0
    after_owner: int = 0
    after_end: int = 0
    too_late: int = 0
    of_other_clock: int = 0

    def add(
        self, owners: NDArray[np.int32], start_ns: NDArray[np.int64], lives: ThreadLives
    ) -> int:
        """Count records that get no row; return how many have no owner at all."""
        # What came before the recording is no loss.
        is_recorded = start_ns >= lives.start_ns
        is_outside = ((owners == OUTSIDE) | (owners == AFTER)) & is_recorded
        if self.end_ns:
            self.too_late += _count(is_outside & lives.is_too_late(start_ns))
            # Between the end of the trace and that of the recorder threads go on.
            self.after_owner += _count((owners == AFTER) & (start_ns < self.end_ns))
        else:
            # A recorder that was killed had read the rings more often than the states of threads.
            self.after_end += _count(is_outside)
        self.of_other_clock += _count(owners == ELSEWHEN)
        return _count((owners == NOBODY) & is_recorded)


def _count(chosen: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(chosen))


def gpu_stats(
    scan: ShimScan, reader: ShimGpuReader, facts: GpuFacts, cuts: GpuCuts
) -> list[TraceStat]:
    """Return a row for everything that is missing or odd."""
    rows = [
        *_reported(scan, facts),
        *_failed(facts),
        *_left_out(reader, cuts),
        *_unmatched(reader, facts),
        TraceStat("gpu_name_cut", shim_gpu_cut_names(scan)),
        TraceStat("gpu_reported_twice", shim_gpu_repeated(scan)),
    ]
    return [row for row in rows if row.count != 0]


def _reported(scan: ShimScan, facts: GpuFacts) -> Iterator[TraceStat]:
    """Tell what CUPTI or the shim counted."""
    counts: dict[tuple[int, int], tuple[int, int]] = {}
    for number, what, activity, count, first_ns in shim_gpu_lost(scan):
        before, since_ns = counts.get((what, activity), (0, 0))
        reported_ns = 0 if facts.has_other_clock(number) else first_ns
        earliest = min((ns for ns in (since_ns, reported_ns) if ns), default=0)
        # No process has so many: the number is damaged, and a column would not hold it.
        counts[what, activity] = (min(before + count, INT64_MAX), earliest)
    for (what, activity), (count, since_ns) in _fewest(counts).items():
        earliest_ns = int64(since_ns) or None
        if what == _UNREADABLE and activity:
            yield TraceStat("cupti_kind_unknown", count, earliest_ns, record=str(activity))
        elif what in _CODES:
            yield TraceStat(_CODES[what], count, earliest_ns)
        else:
            yield TraceStat("cupti_lost_otherwise", count, earliest_ns, detail=str(what))


def _fewest(
    counts: dict[tuple[int, int], tuple[int, int]],
) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the counts, of records that could not be read those of the most common kinds only.

    Only there a kind says anything; 0 stands for all others.
    """
    fewer: dict[tuple[int, int], tuple[int, int]] = {}
    reported = {key for key in counts if key[0] == _UNREADABLE}
    kept = sorted(reported, key=lambda key: -counts[key][0])[:_MAX_KINDS]
    for key, (count, first_ns) in counts.items():
        place = key if key in kept else (key[0], 0)
        before, since_ns = fewer.get(place, (0, 0))
        earliest = min((ns for ns in (since_ns, first_ns) if ns), default=0)
        fewer[place] = (min(before + count, INT64_MAX), earliest)
    return fewer


def _failed(facts: GpuFacts) -> Iterator[TraceStat]:
    """Tell of records that CUPTI did not give; how many is not known."""
    times_ns = facts.failures()
    if times_ns:
        yield TraceStat("cupti_call_failed", None, int64(min(times_ns)) or None)


def _left_out(reader: ShimGpuReader, cuts: GpuCuts) -> Iterator[TraceStat]:
    counts = reader.left_out()
    yield TraceStat("gpu_untimed", counts["untimed"])
    yield TraceStat("gpu_backwards", counts["backwards"])
    yield TraceStat("gpu_clock_unknown", counts["unconverted"])
    yield TraceStat("gpu_too_late", cuts.too_late)
    yield TraceStat("cuda_call_without_thread", cuts.calls_of_no_thread)
    yield TraceStat("gpu_without_process", cuts.of_no_process)
    yield TraceStat("gpu_other_clock", cuts.of_other_clock)
    yield TraceStat("gpu_after_owner", cuts.after_owner)
    yield TraceStat("gpu_after_kill", cuts.after_end)


def _unmatched(reader: ShimGpuReader, facts: GpuFacts) -> Iterator[TraceStat]:
    """Tell of activities without a call, where calls were recorded at all, and of the reverse."""
    activities = {
        source: reported
        for source, reported in reader.unmatched().items()
        if facts.has_calls(source)
    }
    yield _sum("gpu_without_call", activities, facts)
    calls = {
        source: reported
        for source, reported in reader.unmatched_calls().items()
        if facts.has_work(source)
    }
    yield _sum("cuda_call_without_gpu", calls, facts)


def _sum(code: str, reported: Mapping[int, tuple[int, int]], facts: GpuFacts) -> TraceStat:
    """Make one row of what was counted by process; another code where a later start explains it."""
    first_ns = min((first for _, first in reported.values()), default=None)
    is_late = any(facts.is_late(process) for process in reported)
    count = sum(count for count, _ in reported.values())
    return TraceStat(f"{code}_late" if is_late else code, count, first_ns)
