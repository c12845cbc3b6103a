"""What the tables of operations lack, as rows of trace_stat."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rlscope_trace import _ingest
from rlscope_trace.ingest.store.nested_ranges import NestedRanges
from rlscope_trace.ingest.writer.trace_stats import TraceStat


@dataclass(slots=True)
class Cuts:
    """What was cut or left out while the tables were made."""

    began_before: int = 0
    open_at_end: int = 0
    after_end: int = 0
    unended_async: int = 0
    of_no_thread: int = 0
    of_other_clock: int = 0
    damaged: int = 0
    too_late: int = 0
    misplaced: int = 0
    reported_too_often: int = 0
    crossing_count: int = 0
    first_crossing_ns: int = 0

    def add_crossings(self, nested: NestedRanges) -> None:
        """Count ranges of a thread that are not properly nested."""
        if nested.crossing_count and not self.crossing_count:
            self.first_crossing_ns = nested.first_crossing_ns
        self.crossing_count += nested.crossing_count


def shim_stats(losses: Mapping[str, int], cuts: Cuts) -> list[TraceStat]:
    """Return a row for everything that is missing, cut or odd."""
    rows = [
        *_dropped(losses, cuts), *_refused(losses), *_odd(losses, cuts), *_truncated(losses, cuts),
    ]  # fmt: skip
    return [row for row in rows if row.count != 0]


def _dropped(losses: Mapping[str, int], cuts: Cuts) -> Iterator[TraceStat]:
    first_ns = losses["first_ns"] or None
    yield TraceStat("operation_ring_full", losses["dropped_events"], first_ns)
    yield TraceStat("operation_rings_used_up", losses["without_slot"], first_ns)
    yield TraceStat("fork_without_memory", None if losses["refused_children"] else 0)
    yield TraceStat("operation_names_dropped", losses["dropped_names"])
    yield TraceStat("operation_in_signal_handler", losses["interrupted"])
    yield TraceStat("operation_too_deep", losses["too_deep"])
    yield TraceStat("operations_damaged", losses["damaged"] + cuts.damaged)
    yield TraceStat("operation_too_late", cuts.too_late)
    yield TraceStat("marks_too_many", losses["too_many"])
    yield TraceStat("names_reported_too_often", cuts.reported_too_often)


def _refused(losses: Mapping[str, int]) -> Iterator[TraceStat]:
    """Yield what the recorder did not take: how much that was is not known, but for memories."""
    first_ns = losses["refused_ns"] or None
    rate = _ingest.SHIM_MIB_PER_S << 20
    unknown = {
        "limited": TraceStat("operations_rate_limited", None, first_ns, bytes=rate),
        "no_room": TraceStat("operations_disk_full", None, first_ns),
        "unread_rings": TraceStat("operation_ring_overwritten", None, first_ns),
    }
    yield from (row for name, row in unknown.items() if losses[name])
    yield TraceStat("processes_too_many", losses["refused_memories"], first_ns)


def _odd(losses: Mapping[str, int], cuts: Cuts) -> Iterator[TraceStat]:
    yield TraceStat("pop_unbalanced", losses["unbalanced_pops"])
    yield TraceStat("range_end_alone", losses["unmatched_ends"])
    yield TraceStat("range_on_two_threads", losses["cross_thread_ends"])
    yield TraceStat("operation_without_thread", cuts.of_no_thread)
    yield TraceStat("operation_other_clock", cuts.of_other_clock)
    yield TraceStat("operation_not_nested", cuts.crossing_count, cuts.first_crossing_ns or None)


def _truncated(losses: Mapping[str, int], cuts: Cuts) -> Iterator[TraceStat]:
    yield TraceStat("operation_began_before", cuts.began_before)
    yield TraceStat("operation_open_at_end", cuts.open_at_end)
    yield TraceStat("operation_after_kill", cuts.after_end)
    yield TraceStat("range_never_ended", cuts.unended_async)
    yield TraceStat("operation_name_cut", losses["cut_names"])
    yield TraceStat("operation_names_folded", losses["folded_names"])
    yield TraceStat("operation_unnamed", losses["unnamed"])
    yield TraceStat("operation_paths_too_many", cuts.misplaced)
    yield TraceStat("operation_block_cut", int(losses["bytes_left"] > 0))
