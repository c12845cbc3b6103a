"""The table counter: what the driver said of the GPUs while the recording ran."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice

import numpy as np

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_trace.ingest.writer.coverages import KindCoverage
from rlscope_trace.ingest.writer.trace_stats import TraceStat
from rlscope_trace.ingest.writer.trace_writer import TraceWriter
from rlscope_trace.spool.counter_file import CounterLines, read_counter_file
from rlscope_trace.spool.directory import Spool

# What `record` notes where readings were not wanted.
NVML_FACT = "nvml"
_BATCH_ROWS = 1 << 17

_READINGS = """
SELECT
  ts_ns, $host, list_extract($uuids::VARCHAR[], device), list_extract($numbers::INTEGER[], device),
  list_extract($names::VARCHAR[], name), value
FROM batch
"""


@dataclass(slots=True)
class Counters:
    """What was written of the readings."""

    coverage: KindCoverage | None = None
    losses: list[TraceStat] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)
    """What meta tells of the devices."""


def insert_counters(trace: TraceWriter, spool: Spool) -> Counters:
    """Insert the readings of a spool; return what is to be said of them.

    A spool of a recorder that knew no readings gets none: then nobody asked for them. Readings from
    after the end of the trace are left out.
    """
    session, path = spool.session, spool.counters_path
    if NVML_FACT not in session and path is None:
        return Counters()
    lines = CounterLines()
    seen: set[tuple[int, str]] = set()
    count = 0
    if path is not None:
        batches = _batches(read_counter_file(path, lines), spool.end_ns)
        count = sum(_insert(trace, batch, lines, session.get("host"), seen) for batch in batches)
    facts = _facts(lines, seen, is_asked=session.get(NVML_FACT) is not False, has_file=bool(path))
    return Counters(
        coverage=KindCoverage(None, "counter", count > 0, facts),
        losses=[loss for loss in _losses(lines) if loss.count != 0],
        meta=_meta(lines) if lines.devices else {},
    )


_Row = tuple[int, int, str, float]


def _batches(readings: Iterable[_Row], end_ns: int) -> Iterator[list[_Row]]:
    """Yield the readings up to the end of the trace (0: not known), many at a time."""
    inside = (row for row in readings if not end_ns or row[1] <= end_ns)
    while batch := list(islice(inside, _BATCH_ROWS)):
        yield batch


def _insert(
    trace: TraceWriter,
    readings: list[_Row],
    lines: CounterLines,
    host: object,
    seen: set[tuple[int, str]],
) -> int:
    seen.update((position, name) for position, _, name, _ in readings)
    names = sorted({row[2] for row in readings})
    places = {name: place for place, name in enumerate(names, 1)}
    # Lists count from 1.
    batch = {
        "device": np.array([row[0] + 1 for row in readings], dtype=np.int64),
        "ts_ns": np.array([row[1] for row in readings], dtype=np.int64),
        "name": np.array([places[row[2]] for row in readings], dtype=np.int64),
        "value": np.array([row[3] for row in readings], dtype=np.float64),
    }
    parameters = {
        "host": host if isinstance(host, str) else None,
        "uuids": [device.uuid for device in lines.devices],
        "numbers": [device.index for device in lines.devices],
        "names": names,
    }
    return trace.insert("counter", _READINGS, batch, parameters)


def _facts(
    lines: CounterLines, seen: set[tuple[int, str]], *, is_asked: bool, has_file: bool
) -> tuple[Fact, ...]:
    """Return how the readings were taken, what is missing of them, or why there are none."""
    if not is_asked:
        return (Fact("not_asked_for", "--no-nvml"),)
    if not has_file:
        return (Fact("nvml_file_missing"),)
    if not seen:
        refused = dict.fromkeys(reason for _, _, reason in lines.not_measured)
        why = tuple(Fact("nvml_unavailable", detail=reason) for reason in refused)
        return tuple(lines.unavailable) or why or (Fact("nvml_silent"),)
    missing = list(_missing(lines, seen))
    missing += [Fact("nvml_ended", detail=fact.detail) for fact in lines.unavailable]
    if lines.interval_ms is None:
        return tuple(missing)
    return tuple(missing) or (Fact("nvml", duration_ns=lines.interval_ms * 1_000_000),)


def _missing(lines: CounterLines, seen: set[tuple[int, str]]) -> Iterator[Fact]:
    """Yield what was refused: counters that share a reason and their devices in one fact."""
    devices: dict[tuple[str, str, str], list[int]] = {}
    for position, name, reason in sorted(lines.not_measured, key=lambda one: (*one[:0:-1], one[0])):
        code = "nvml_refused_later" if (position, name) in seen else "nvml_refused"
        devices.setdefault((code, reason, name), []).append(lines.devices[position].index)
    by_place = sorted(
        (code, why, sorted(set(on)), name) for (code, why, name), on in devices.items()
    )
    for (code, why, on), rows in groupby(by_place, key=lambda row: row[:3]):
        names = ", ".join(row[3] for row in rows)
        yield Fact(code, f"{names} of GPU {', '.join(map(str, on))}", why)


def _losses(lines: CounterLines) -> Iterator[TraceStat]:
    yield TraceStat("nvml_disk_full", lines.lost.count, lines.lost.first_ns)
    yield TraceStat("nvml_failed", lines.failed.count, lines.failed.first_ns)
    yield TraceStat("nvml_damaged", lines.damaged)
    if lines.is_hung:
        yield TraceStat("nvml_hung", None)


def _meta(lines: CounterLines) -> dict[str, str]:
    devices = [
        {"device_id": device.index, "uuid": device.uuid, "name": device.name}
        for device in lines.devices
    ]
    return {
        "nvml_driver": lines.driver or "",
        "nvml_interval_ms": str(lines.interval_ms or 0),
        "nvml_devices": json.dumps(devices),
    }
