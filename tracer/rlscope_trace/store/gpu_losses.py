"""What the tables of GPU records lack, as rows of trace_stat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_trace._capture import shim_gpu_cut_names, shim_gpu_lost, shim_gpu_repeated
from rlscope_trace.store.gpu_devices import INT64_MAX, int64
from rlscope_trace.store.gpu_facts import NOT_FETCHED
from rlscope_trace.store.operation_losses import OUT_OF_IT
from rlscope_trace.store.stats import KILLED, TraceStat
from rlscope_trace.store.thread_lives import ELSEWHEN, OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from rlscope_trace._capture import ShimGpuReader, ShimScan
    from rlscope_trace.store.gpu_facts import GpuFacts

# Of rls_shim_gpu_lost.what.
_DROPPED, _UNREADABLE, _NO_BUFFER = 1, 2, 3
_SLOWER = "record less: without --cuda-memory, with --cuda-graphs graph"
_MEMORY = "leave the program more memory: the machine, or its limit (ulimit -v, cgroup), was full"
_NEWER = "a newer rlscope-trace may know the records of this CUDA"
_REST = (
    "GPU records of processes that ended, or were left, while CUPTI held some: the last 0.4 s"
    " at most, and what was under way"
)
_END = "let the program end by itself: kill -9, os._exit and exec leave CUPTI no time"
_FROM_START = "record the program from its start: rlscope-trace -- COMMAND"
_CLOCK = "record for longer than a second, and do not set the clock of the machine meanwhile"


@dataclass(slots=True)
class GpuCuts:
    """What was left out while the tables were made."""

    is_clean: bool
    calls_of_no_thread: int = 0
    of_no_process: int = 0
    after_end: int = 0
    of_other_clock: int = 0

    def add_outside(self, owners: NDArray[np.int32], is_recorded: NDArray[np.bool_]) -> None:
        """Count what came after the last instant that is known of its owner."""
        # A recorder that was killed had read the rings more often than the states of threads.
        if not self.is_clean:
            self.after_end += int(np.count_nonzero((owners == OUTSIDE) & is_recorded))

    def add_elsewhen(self, owners: NDArray[np.int32]) -> None:
        """Count what is dated by another clock than that of the trace."""
        self.of_other_clock += int(np.count_nonzero(owners == ELSEWHEN))


def gpu_stats(
    scan: ShimScan, reader: ShimGpuReader, facts: GpuFacts, cuts: GpuCuts
) -> list[TraceStat]:
    """Return a row for everything that is missing or odd."""
    rows = [
        *_told(scan, facts),
        *_failed(facts),
        *_left_out(reader, cuts),
        *_unmatched(reader, facts),
        TraceStat(
            "truncated", "names of GPU records longer than 1024 bytes: cut",
            shim_gpu_cut_names(scan), None, None,
        ),
        TraceStat(
            "unmatched", "statuses and devices that a process told more than once: kept once",
            shim_gpu_repeated(scan), None, None,
        ),
    ]  # fmt: skip
    return [row for row in rows if row.count != 0]


def _told(scan: ShimScan, facts: GpuFacts) -> Iterator[TraceStat]:
    """Tell what CUPTI or the shim counted."""
    counts: dict[tuple[int, int], tuple[int, int]] = {}
    for number, what, activity, count, first_ns in shim_gpu_lost(scan):
        before, since_ns = counts.get((what, activity), (0, 0))
        told_ns = 0 if facts.has_other_clock(number) else first_ns
        earliest = min((ns for ns in (since_ns, told_ns) if ns), default=0)
        # No process has so many: the number is damaged, and a column would not hold it.
        counts[what, activity] = (min(before + count, INT64_MAX), earliest)
    for (what, activity), (count, first_ns) in counts.items():
        if what == _DROPPED:
            source, remedy = "GPU records: CUPTI had no buffer left", _SLOWER
        elif what == _NO_BUFFER:
            source, remedy = "GPU records: there was no memory for a buffer of CUPTI", _MEMORY
        elif what == NOT_FETCHED:
            yield TraceStat("truncated", _REST, count, int64(first_ns) or None, _END)
            continue
        elif what == _UNREADABLE:
            source = f"GPU records of a form that is not known, of CUPTI's kind {activity}"
            remedy = _NEWER
        else:
            source, remedy = f"GPU records: for reason {what}, which is not known", _NEWER
        yield TraceStat("dropped", source, count, int64(first_ns) or None, remedy)


def _failed(facts: GpuFacts) -> Iterator[TraceStat]:
    """Tell of records that CUPTI did not give; how many is not known."""
    times_ns = facts.failures()
    if times_ns:
        source = "GPU records: a call of CUPTI failed, which table capture names"
        yield TraceStat("dropped", source, None, int64(min(times_ns)) or None, None)


def _left_out(reader: ShimGpuReader, cuts: GpuCuts) -> Iterator[TraceStat]:
    counts = reader.left_out()
    yield TraceStat(
        "dropped", "GPU records without a start or an end", counts["untimed"], None,
        "synchronise the GPU before the program ends, and let it end by itself",
    )  # fmt: skip
    yield TraceStat(
        "dropped", "GPU records that end before they start", counts["backwards"], None, None
    )
    yield TraceStat(
        "dropped", "GPU records on a clock that cannot be converted", counts["unconverted"], None,
        _CLOCK,
    )  # fmt: skip
    yield TraceStat(
        "unmatched", "CUDA calls of threads that are not in the trace", cuts.calls_of_no_thread,
        None, None,
    )  # fmt: skip
    yield TraceStat(
        "unmatched", "GPU activities of processes that are not in the trace", cuts.of_no_process,
        None, None,
    )  # fmt: skip
    yield TraceStat(
        "unmatched", "GPU records of processes in a time namespace: their clock is not ours",
        cuts.of_other_clock, None, OUT_OF_IT,
    )  # fmt: skip
    yield TraceStat(
        "truncated", "GPU records after the last instant that is known of their process",
        cuts.after_end, None, KILLED,
    )  # fmt: skip


def _unmatched(reader: ShimGpuReader, facts: GpuFacts) -> Iterator[TraceStat]:
    """Tell of activities without a call, where calls were recorded at all, and of the reverse."""
    activities = {
        source: told for source, told in reader.unmatched().items() if facts.has_calls(source)
    }
    source = "GPU activities whose call is not in the trace"
    yield _sum(source, activities, facts)
    calls = {
        source: told for source, told in reader.unmatched_calls().items() if facts.has_work(source)
    }
    source = "CUDA calls whose GPU activity is not in the trace, or that a graph captured"
    yield _sum(source, calls, facts)


def _sum(source: str, told: Mapping[int, tuple[int, int]], facts: GpuFacts) -> TraceStat:
    """Make one row of what was counted by process; a remedy where a later start explains it."""
    first_ns = min((first for _, first in told.values()), default=None)
    is_late = any(facts.is_late(process) for process in told)
    count = sum(count for count, _ in told.values())
    return TraceStat("unmatched", source, count, first_ns, _FROM_START if is_late else None)
