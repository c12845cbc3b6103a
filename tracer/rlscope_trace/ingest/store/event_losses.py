"""What the records of calls and samples lack, as rows of trace_stat."""

from collections.abc import Iterator

from rlscope_trace.ingest.store.events import Events
from rlscope_trace.ingest.store.probe_facts import ProbeFacts
from rlscope_trace.ingest.writer.trace_stats import MOST, TraceStat

# So many processes are reported one by one.
_MAX_UNSCANNED = 8
# Counter of NativeProbes -> what it counts.
_CALLS = {
    "unmatched": "call_under_way",
    "too_deep": "call_too_deep",
    "abandoned": "call_abandoned",
    "declined": "call_in_signal_handler",
    "failed": "call_without_memory",
    "missed": "call_probe_skipped",
}


def event_losses(facts: ProbeFacts, events: Events, *, is_clean: bool) -> list[TraceStat]:
    """Everything that was lost; losses of the ring and the disk are counted with all others.

    is_clean: the recorder lived to write the end of the recording.
    """
    return [row for row in _all(facts, events, is_clean=is_clean) if row.count != 0]


def _all(facts: ProbeFacts, events: Events, *, is_clean: bool) -> Iterator[TraceStat]:
    yield TraceStat("events_unreadable", events.malformed_count)
    unowned = "events_without_thread" if is_clean else "events_without_thread_after_kill"
    yield TraceStat(unowned, events.unknown_thread_count)
    if facts.failure is not None:
        yield TraceStat("instruments_failed", None, detail=facts.failure)
    yield TraceStat("probe_notes_damaged", facts.damaged_lines)
    if facts.sampler.get("held_up"):
        # One at least: the sample at which it was held up.
        yield TraceStat("samples_unread", max(facts.sampler.get("unread", 0), 1))
    for pid, unscanned_bytes in facts.unscanned[:_MAX_UNSCANNED]:
        yield TraceStat("functions_unsearched", 1, pid=pid, bytes=unscanned_bytes)
    more = facts.unscanned[_MAX_UNSCANNED:]
    more_bytes = min(sum(size for _, size in more), MOST)
    yield TraceStat("more_functions_unsearched", len(more), bytes=more_bytes)
    for name, code in _CALLS.items():
        yield TraceStat(code, facts.losses.get(name, 0))
