"""What the recorder and the disk lost of a spool, as rows of trace_stat."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlscope_trace.ingest.writer.trace_stats import MOST, TraceStat
from rlscope_trace.spool.directory import RECORD_KINDS, Loss, Spool

_DEFAULT_RING_MIB = 32
# So many rings are reported one by one.
_MAX_RINGS = 64


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the decoder found, or missed, in records.bin."""

    records: Mapping[int, int]
    whole_bytes: int
    file_bytes: int
    malformed_count: int
    unknown_kind_count: int
    unknown_start_count: int
    unread_titles: int
    """Which there was no more room for."""
    findings: Mapping[str, tuple[int, int]]
    """Count and time of the first, by name; see Findings in tracer/native/spool/state_rows.h."""


def trace_stats(spool: Spool, decoded: Decoded) -> list[TraceStat]:
    """Everything that was lost, between the probes and this database."""
    ring_bytes = _ring_bytes(spool)
    rows = [
        *_recording(spool, ring_bytes), *_reading(spool, decoded), *_telling(decoded, ring_bytes),
    ]  # fmt: skip
    return [row for row in rows if row.count != 0]


def _ring_bytes(spool: Spool) -> int:
    size = spool.session.get("ring_mib")
    return (size if isinstance(size, int) else _DEFAULT_RING_MIB) << 20


def _recording(spool: Spool, ring_bytes: int) -> Iterator[TraceStat]:
    """Losses that the recorder counted."""
    if not spool.end_ns:
        yield TraceStat("recorder_killed", None)
    yield TraceStat("session_damaged", spool.damaged_facts)
    progress = spool.progress
    if progress is None:
        yield TraceStat("counters_gone", None)
        return
    yield from _ring_losses(progress.ring_losses, ring_bytes)
    for loss in progress.spool_losses:
        yield TraceStat("spool_full", loss.count, loss.first_ns or None, record=loss.kind)
    yield TraceStat("probe_runs_skipped", progress.missed_runs)
    yield TraceStat("filter_full", progress.failed_updates)


def _ring_losses(losses: Sequence[Loss], ring_bytes: int) -> Iterator[TraceStat]:
    """Tell of the CPUs that lost most one by one, and of all others together."""
    most = sorted(losses, key=lambda loss: -loss.count)[:_MAX_RINGS]
    rest: dict[str, list[Loss]] = {}
    for loss in losses:
        if loss in most:
            yield TraceStat(
                "ring_full", loss.count, loss.first_ns or None, cpu=loss.cpu, record=loss.kind,
                bytes=ring_bytes,
            )  # fmt: skip
        else:
            rest.setdefault(loss.kind, []).append(loss)
    for kind, others in rest.items():
        first_ns = min((loss.first_ns for loss in others if loss.first_ns), default=None)
        count = min(sum(loss.count for loss in others), MOST)
        yield TraceStat("other_rings_full", count, first_ns, record=kind, bytes=ring_bytes)


def _reading(spool: Spool, decoded: Decoded) -> Iterator[TraceStat]:
    """Losses on the disk: records that were written, but cannot be read."""
    expected = spool.progress.records if spool.progress is not None else {}
    missing = sum(
        max(expected.get(kind, 0) - decoded.records.get(kind, 0), 0)
        for kind in range(1, len(RECORD_KINDS))
    )
    missing = min(missing, MOST)
    missing = max(missing - decoded.malformed_count - decoded.unknown_kind_count, 0)
    left_bytes = decoded.file_bytes - decoded.whole_bytes
    if left_bytes > 0 or missing > 0:
        yield TraceStat("spool_cut", max(missing, 1), bytes=left_bytes)
    yield TraceStat("spool_damaged", decoded.malformed_count)
    yield TraceStat("spool_unknown", decoded.unknown_kind_count)
    yield TraceStat("titles_too_many", decoded.unread_titles)


# What the decoder finds, by its name there, and whether a larger ring may help.
_FINDINGS = {
    "unseen_switch_in": ("switch_in_unseen", False),
    "unseen_wakeup": ("wakeup_unseen", False),
    "gap": ("cycle_gap", True),
    "overlap": ("cycle_overlap", False),
    "unseen_end": ("thread_end_unseen", True),
    "truncated_thread": ("thread_cut", False),
}


def _telling(decoded: Decoded, ring_bytes: int) -> Iterator[TraceStat]:
    """Holes in what the records tell of the threads."""
    yield TraceStat("thread_start_unseen", decoded.unknown_start_count, bytes=ring_bytes)
    for name, (code, is_of_ring) in _FINDINGS.items():
        count, first_ns = decoded.findings[name]
        yield TraceStat(code, count, first_ns, bytes=ring_bytes if is_of_ring else None)
