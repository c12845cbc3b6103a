"""What a trace lacks, as rows of trace_stat: a row for every loss, each with its remedy."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rlscope_trace.store.spool import RECORD_KINDS, Spool

# What helps, for the other tables' losses too.
KILLED = "stop the recorder with Ctrl-C or SIGTERM: a kill loses what was under way"
DAMAGED = "check the disk: what is written there does not come back"
_SKIPPED = (
    "stop other tracers, if there are any: the OS kernel skips a probe that interrupts another one,"
    " and hides some threads from all of them"
)
_DEFAULT_RING_MIB = 32
_SPACE = "free space, or record to another disk with -o"


@dataclass(frozen=True, slots=True)
class TraceStat:
    """One row of trace_stat. count and first_ns are None where they are not known.

    remedy: None where nothing can be done about it.
    """

    kind: str
    source: str
    count: int | None
    first_ns: int | None
    remedy: str | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """What the decoder found, or missed, in records.bin."""

    records: Mapping[int, int]
    whole_bytes: int
    file_bytes: int
    malformed_count: int
    unknown_kind_count: int
    unknown_start_count: int
    findings: Mapping[str, tuple[int, int]]
    """Count and time of the first, by name; see Findings in tracer/native/spool/state_rows.h."""


def trace_stats(spool: Spool, decoded: Decoded) -> list[TraceStat]:
    """Everything that was lost, between the probes and this database."""
    rows = [*_recording(spool), *_reading(spool, decoded), *_telling(decoded, _ring(spool))]
    return [row for row in rows if row.count != 0]


def _ring(spool: Spool) -> str:
    size = spool.session.get("ring_mib")
    return f"--ring-mib {2 * size if isinstance(size, int) else 2 * _DEFAULT_RING_MIB}"


def _recording(spool: Spool) -> Iterator[TraceStat]:
    """Losses that the recorder counted."""
    if not spool.end_ns:
        yield TraceStat("truncated", "the recording: its last 0.1 s at least", None, None, KILLED)
    progress = spool.progress
    if progress is None:
        yield TraceStat("dropped", "not known: the counters are gone", None, None, DAMAGED)
        return
    for loss in progress.ring_losses:
        source = f"ring cpu {loss.cpu} {loss.kind}"
        yield TraceStat("dropped", source, loss.count, loss.first_ns or None, _ring(spool))
    for loss in progress.spool_losses:
        source = f"spool {loss.kind}"
        yield TraceStat("dropped", source, loss.count, loss.first_ns or None, _SPACE)
    yield TraceStat(
        "dropped", "probe runs that the OS kernel skipped", progress.missed_runs, None,
        _SKIPPED,
    )  # fmt: skip
    yield TraceStat(
        "dropped", "threads that the filter could not take", progress.failed_updates, None,
        "attach earlier: it happens while very many threads are being created",
    )  # fmt: skip


def _reading(spool: Spool, decoded: Decoded) -> Iterator[TraceStat]:
    """Losses on the disk: records that were written, but cannot be read."""
    expected = spool.progress.records if spool.progress is not None else {}
    missing = sum(
        max(expected.get(kind, 0) - decoded.records.get(kind, 0), 0)
        for kind in range(1, len(RECORD_KINDS))
    )
    missing = max(missing - decoded.malformed_count - decoded.unknown_kind_count, 0)
    left_bytes = decoded.file_bytes - decoded.whole_bytes
    if left_bytes > 0 or missing > 0:
        source = f"spool: {left_bytes} bytes after the last whole record"
        yield TraceStat("truncated", source, max(missing, 1), None, KILLED)
    yield TraceStat("dropped", "spool: damaged records", decoded.malformed_count, None, DAMAGED)
    yield TraceStat(
        "dropped", "spool: records of a kind not known", decoded.unknown_kind_count, None,
        "recover the spool with the rlscope-trace that recorded it",
    )  # fmt: skip


def _telling(decoded: Decoded, ring: str) -> Iterator[TraceStat]:
    """Holes in what the records tell of the threads."""
    yield TraceStat(
        "unmatched", "threads without a start: in process (unknown)",
        decoded.unknown_start_count, None, ring,
    )  # fmt: skip
    sources = {
        "unseen_switch_in": ("unmatched", "switch-ins not seen, see thread.lost_ns", _SKIPPED),
        "unseen_wakeup": (
            "unmatched",
            "wakeups not seen: run-queue latency counted as sleep",
            _SKIPPED,
        ),
        "gap": ("unmatched", "cycles: gaps between them, see thread.lost_ns", ring),
        "overlap": ("unmatched", "cycles that overlap or run backwards: cut", DAMAGED),
        "unseen_end": ("unmatched", "threads without an end, see thread.lost_ns", ring),
        "truncated_thread": ("truncated", "threads alive when the recorder was killed", KILLED),
    }
    for name, (kind, source, remedy) in sources.items():
        count, first_ns = decoded.findings[name]
        yield TraceStat(kind, source, count, first_ns, remedy)
