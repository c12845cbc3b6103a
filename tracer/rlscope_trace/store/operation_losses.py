"""What the tables of operations lack, as rows of trace_stat."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rlscope_trace.store.nested_ranges import NestedRanges
from rlscope_trace.store.stats import DAMAGED, KILLED, TraceStat

_SLOWER = "mark fewer ranges: the recorder could not keep up with their rate"
REFUSED = "the program set a seccomp filter, or a limit (ulimit -f, -v), before"
OUT_OF_IT = "run the program outside of it"
_UNBALANCED = "let every push have its pop, on the same thread and in the same domain"


@dataclass(slots=True)
class Cuts:
    """What was cut or left out while the tables were made."""

    began_before: int = 0
    open_at_end: int = 0
    after_end: int = 0
    unended_async: int = 0
    of_no_thread: int = 0
    of_other_clock: int = 0
    crossing_count: int = 0
    first_crossing_ns: int = 0

    def add_crossings(self, nested: NestedRanges) -> None:
        """Count ranges of a thread that are not properly nested."""
        if nested.crossing_count and not self.crossing_count:
            self.first_crossing_ns = nested.first_crossing_ns
        self.crossing_count += nested.crossing_count


def shim_stats(losses: Mapping[str, int], cuts: Cuts) -> list[TraceStat]:
    """Return a row for everything that is missing, cut or odd."""
    rows = [*_dropped(losses), *_odd(losses, cuts), *_truncated(losses, cuts)]
    return [row for row in rows if row.count != 0]


def _dropped(losses: Mapping[str, int]) -> Iterator[TraceStat]:
    first_ns = losses["first_ns"] or None
    yield TraceStat(
        "dropped", "operations: the ring of a thread was full", losses["dropped_events"], first_ns,
        _SLOWER,
    )  # fmt: skip
    yield TraceStat(
        "dropped", "operations: more threads at once than a process has rings (126)",
        losses["without_slot"], first_ns, "mark ranges on fewer threads",
    )  # fmt: skip
    yield TraceStat(
        "dropped", "operations of forked processes: no memory could be shared with them",
        None if losses["refused_children"] else 0, None, REFUSED,
    )  # fmt: skip
    yield TraceStat(
        "dropped", "names of operations: told again later, unless the ring stayed full",
        losses["dropped_names"], None, _SLOWER,
    )  # fmt: skip
    yield TraceStat(
        "dropped", "operations marked by a signal handler that interrupted another one",
        losses["interrupted"], None, "mark no ranges in signal handlers",
    )  # fmt: skip
    yield TraceStat(
        "dropped", "operations nested deeper than 64", losses["too_deep"], None,
        "mark the outer levels only",
    )  # fmt: skip
    yield TraceStat("dropped", "operations: damaged records", losses["damaged"], None, DAMAGED)


def _odd(losses: Mapping[str, int], cuts: Cuts) -> Iterator[TraceStat]:
    yield TraceStat(
        "unmatched", "pops of ranges that were not open", losses["unbalanced_pops"], None,
        _UNBALANCED,
    )  # fmt: skip
    yield TraceStat(
        "unmatched", "ends of start/end ranges whose start is not in the trace",
        losses["unmatched_ends"], None, None,
    )  # fmt: skip
    yield TraceStat(
        "unmatched", "start/end ranges that ended on another thread: kept, in async_range",
        losses["cross_thread_ends"], None, None,
    )  # fmt: skip
    yield TraceStat(
        "unmatched", "operations of threads that are not in the trace", cuts.of_no_thread, None,
        None,
    )  # fmt: skip
    yield TraceStat(
        "unmatched", "operations of processes in a time namespace: their clock is not ours",
        cuts.of_other_clock, None, OUT_OF_IT,
    )  # fmt: skip
    yield TraceStat(
        "unmatched", "operations that are not properly nested: kept, inside the one opened last",
        cuts.crossing_count, cuts.first_crossing_ns or None, _UNBALANCED,
    )  # fmt: skip


def _truncated(losses: Mapping[str, int], cuts: Cuts) -> Iterator[TraceStat]:
    yield TraceStat(
        "truncated", "operations that began before the recording: cut at its start",
        cuts.began_before, None, None,
    )  # fmt: skip
    yield TraceStat(
        "truncated", "operations still open when their thread or the recording ended: cut there",
        cuts.open_at_end, None, None,
    )  # fmt: skip
    yield TraceStat(
        "truncated", "operations after the last instant that is known of their thread",
        cuts.after_end, None, KILLED,
    )  # fmt: skip
    yield TraceStat(
        "truncated", "start/end ranges never ended: cut at the end of the process or recording",
        cuts.unended_async, None, None,
    )  # fmt: skip
    yield TraceStat(
        "truncated", "names of operations longer than 1024 bytes: cut", losses["cut_names"], None,
        None,
    )  # fmt: skip
    yield TraceStat(
        "truncated", "operations: a block was not written to its end",
        int(losses["bytes_left"] > 0), None, KILLED,
    )  # fmt: skip
