"""The table os_counter: what the OS kernel counted of memory and of CPU quotas meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.ingest.store.gil_ranges import life_of
from rlscope_trace.ingest.writer.coverages import KindCoverage
from rlscope_trace.ingest.writer.trace_stats import TraceStat
from rlscope_trace.spool.os_counter_file import OsCounterLines, Reading, read_os_counter_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.ingest.store.processes import Life
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter
    from rlscope_trace.spool.directory import Spool

_KIND = "os_counter"


@dataclass(frozen=True, slots=True)
class OsCounters:
    """What was written of the readings."""

    coverage: KindCoverage
    losses: list[TraceStat] = field(default_factory=list)


def insert_os_counters(trace: TraceWriter, spool: Spool, lives: Sequence[Life]) -> OsCounters:
    """Insert the readings of a spool up to the end of the trace; return what is to be said."""
    path = spool.os_counters_path
    if path is None:
        return OsCounters(KindCoverage(None, _KIND, measured=False, facts=(Fact("not_reported"),)))
    lines = OsCounterLines()
    by_pid: dict[int, list[Life]] = {}
    for life in lives:
        by_pid.setdefault(life.pid, []).append(life)
    host = spool.session.get("host")
    rows = [
        _row(reading, by_pid, host if isinstance(host, str) else None)
        for reading in read_os_counter_file(path, lines)
        if not spool.end_ns or reading.ts_ns <= spool.end_ns
    ]
    known = [row for row in rows if row[2] != "process" or row[3] is not None]
    trace.insert_rows(_KIND, known)
    losses = [
        TraceStat("os_counters_disk_full", lines.lost.count, lines.lost.first_ns),
        TraceStat("os_counters_damaged", lines.damaged),
    ]
    return OsCounters(
        KindCoverage(None, _KIND, measured=bool(known)), [loss for loss in losses if loss.count]
    )


def _row(reading: Reading, by_pid: dict[int, list[Life]], host: str | None) -> tuple[object, ...]:
    pid = reading.pid
    life = None if pid is None else life_of(by_pid.get(pid, ()), pid, reading.ts_ns)
    process_id = None if life is None else life.process_id
    return (
        reading.ts_ns, host, reading.scope, process_id, reading.cgroup, reading.name, reading.value
    )  # fmt: skip
