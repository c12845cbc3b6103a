"""What the records of calls and samples lack, as rows of trace_stat."""

from collections.abc import Iterator

from rlscope_trace.store.probe_facts import ProbeFacts
from rlscope_trace.store.stats import DAMAGED, TraceStat

# Counter of NativeProbes -> kind, what it counts, what to do about it.
_CALLS = {
    "unmatched": (
        "unmatched", "returns of calls that were under way when their probe was attached", None,
    ),
    "too_deep": ("dropped", "calls nested too deep in other recorded calls", None),
    "abandoned": (
        "unmatched", "calls that were under way when another function of their file was dropped",
        None,
    ),
    "declined": ("dropped", "calls in a signal handler that interrupted a recorded call", None),
    "failed": ("dropped", "calls that there was no memory to remember", None),
    "missed": (
        "dropped", "runs of call probes that the OS kernel skipped",
        "stop other tracers, if there are any",
    ),
}  # fmt: skip


def event_losses(facts: ProbeFacts, malformed_count: int) -> list[TraceStat]:
    """Everything that was lost; losses of the ring and the disk are counted with all others."""
    return [row for row in _all(facts, malformed_count) if row.count != 0]


def _all(facts: ProbeFacts, malformed_count: int) -> Iterator[TraceStat]:
    yield TraceStat(
        "dropped", "calls and samples that cannot be read", malformed_count, None, DAMAGED
    )
    if facts.failure is not None:
        source = f"calls and Python functions: the recorder failed: {facts.failure}"
        yield TraceStat("dropped", source, None, None, "report it; the rest of the trace is whole")
    yield TraceStat("dropped", "notes of the probes", facts.damaged_lines, None, DAMAGED)
    for pid, unscanned_bytes in facts.unscanned:
        source = f"functions in {unscanned_bytes >> 20:,} MiB of pid {pid} that were not searched"
        yield TraceStat("skipped", source, 1, None, None)
    for name, (kind, source, remedy) in _CALLS.items():
        yield TraceStat(kind, source, facts.losses.get(name, 0), None, remedy)
