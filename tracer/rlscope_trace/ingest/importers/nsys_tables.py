"""The tables of a trace, from what was read of one or several Nsight Systems exports."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema.vocabulary import UNNAMED
from rlscope_trace.ingest.importers.nesting import OperationNames, lost_operations, operation_tables
from rlscope_trace.ingest.importers.nsys_calls import Calls
from rlscope_trace.ingest.importers.nsys_coverage import Verdict, coverage_table
from rlscope_trace.ingest.importers.nsys_devices import DeviceKey, Facts, device_table
from rlscope_trace.ingest.importers.nsys_gpu import Activities
from rlscope_trace.ingest.importers.nsys_losses import Losses
from rlscope_trace.ingest.importers.nsys_nvtx import NvtxNames, Ranges
from rlscope_trace.ingest.importers.nsys_owners import Owners
from rlscope_trace.ingest.importers.nsys_sched import States
from rlscope_trace.ingest.importers.nsys_source import Names, distinct_rows
from rlscope_trace.ingest.importers.nsys_sqlite import Columns
from rlscope_trace.ingest.store.nested_ranges import nest_ranges
from rlscope_trace.ingest.writer.columns import Table, joined_column
from rlscope_trace.ingest.writer.trace_stats import TraceStat


@dataclass
class Recordings:
    """What was read so far, of all exports; times on the clock of the trace."""

    owners: Owners = field(default_factory=Owners)
    names: Names = field(default_factory=Names)
    nvtx_names: NvtxNames = field(default_factory=NvtxNames)
    losses: Losses = field(default_factory=Losses)
    calls: list[Calls] = field(default_factory=list)
    activities: list[Activities] = field(default_factory=list)
    operations: list[Ranges] = field(default_factory=list)
    async_ranges: list[Ranges] = field(default_factory=list)
    states: list[States] = field(default_factory=list)
    verdicts: dict[int, dict[str, Verdict]] = field(default_factory=dict)
    """By process, as Owners numbers them."""
    devices: dict[DeviceKey, Facts] = field(default_factory=dict)
    clocks: list[tuple[int, int]] = field(default_factory=list)
    """Instants of the trace and of CLOCK_REALTIME."""
    end_ns: int | None = None
    """When the last recording ended; None: not recorded."""


def build_tables(read: Recordings) -> tuple[dict[str, Table], list[TraceStat]]:
    """Return the tables and the losses; what was read is used up on the way."""
    end_ns = _end_of_trace(read)
    operations = _end_open_ranges(read, read.operations, end_ns)
    async_ranges = _end_open_ranges(read, read.async_ranges, end_ns)
    _extend_owners(read, end_ns)
    _add_lost_time(read)
    process_ids, thread_ids = read.owners.order()
    tables: dict[str, Table] = {**read.owners.tables()}
    tables["cuda_call_coded"] = _joined(
        [{"thread_id": thread_ids[part.thread], **part.columns} for part in _used_up(read.calls)]
    )
    tables["gpu_activity_coded"] = _joined(
        [
            {"process_id": process_ids[part.process], **part.columns}
            for part in _used_up(read.activities)
        ]
    )
    tables["thread_state_coded"] = _joined(
        [{"thread_id": thread_ids[part.thread], **part.columns} for part in _used_up(read.states)]
    )
    operation_rows, crossings = _operations(read.nvtx_names, thread_ids, operations)
    tables.update(operation_rows)
    tables["async_range_coded"] = _async_ranges(read.nvtx_names, process_ids, async_ranges)
    tables["string"] = _strings(read.names)
    tables["gpu_device"] = device_table(read.devices)
    tables["clock"] = {
        "ts_ns": [ts_ns for ts_ns, _ in read.clocks],
        "realtime_ns": [realtime_ns for _, realtime_ns in read.clocks],
    }
    tables["coverage"] = coverage_table(
        [
            (int(process_ids[process]), kind, verdict)
            for process, by_kind in sorted(read.verdicts.items())
            for kind, verdict in by_kind.items()
        ]
    )
    for names in (read.names, *vars(read.nvtx_names).values()):
        read.losses.add("names_too_many", names.other_count)
    return tables, [*read.losses.stats(), *crossings]


def _end_of_trace(read: Recordings) -> int:
    """Return when the last recording ended, or the last event if that is later."""
    ends = [owner.extent.end_ns for owner in read.owners.processes if owner.extent]
    return max([*ends, *([] if read.end_ns is None else [read.end_ns])])


def _end_open_ranges(read: Recordings, parts: list[Ranges], end_ns: int) -> list[Ranges]:
    """Let the open ranges end with the trace, and count them."""
    for part in parts:
        if count := int(part.is_open.sum()):
            read.losses.add(
                "nsys_range_open", count, first_ns=int(part.start_ns[part.is_open].min())
            )
    return [part.ended(end_ns) for part in parts]


def _extend_owners(read: Recordings, end_ns: int) -> None:
    """Let threads and processes last as long as their open ranges."""
    for part in read.operations:
        read.owners.extend_threads(np.unique(part.owner[part.is_open]).tolist(), end_ns)
    for part in read.async_ranges:
        read.owners.extend_processes(np.unique(part.owner[part.is_open]).tolist(), end_ns)


def _add_lost_time(read: Recordings) -> None:
    """Lifetime = states + lost time, of the threads whose states are known."""
    owners = read.owners
    known_ns = np.zeros(len(owners.threads), dtype=np.int64)
    reported: set[int] = set()
    for part in read.states:
        reported |= part.processes
        np.add.at(known_ns, part.thread, part.columns["end_ns"] - part.columns["start_ns"])
    for number, thread in enumerate(owners.threads):
        if owners.process_of[number] in reported and thread.extent:
            lifetime_ns = thread.extent.end_ns - thread.extent.start_ns
            thread.lost_ns = lifetime_ns - int(known_ns[number])


def _used_up(parts: list[Any]) -> list[Any]:
    """Hand over parts, so that nothing else keeps their memory."""
    taken = list(parts)
    parts.clear()
    return taken


def _joined(parts: Sequence[Columns]) -> Columns:
    """Put tables of the same columns below each other; NULLs stay masked."""
    if len(parts) <= 1:
        return dict(parts[0]) if parts else {}
    return {name: joined_column([part[name] for part in parts]) for name in parts[0]}


def _operations(
    names: NvtxNames, thread_ids: NDArray[np.int32], parts: list[Ranges]
) -> tuple[dict[str, Table], list[TraceStat]]:
    if not parts:
        return {}, []
    ranges = nest_ranges(
        np.concatenate([thread_ids[part.owner] for part in parts]),
        np.concatenate([part.start_ns for part in parts]),
        np.concatenate([part.end_ns for part in parts]),
    )
    text, domain, category = (
        np.concatenate(columns)
        for columns in zip(*((p.text, p.domain, p.category) for p in parts), strict=True)
    )
    first, key = distinct_rows((text, domain, category))
    reported = OperationNames(
        name=_values(names.texts, text[first], UNNAMED),
        domain=_values(names.domains, domain[first], None),
        category=_values(names.categories, category[first], None),
        source=["nvtx"] * len(first),
    )
    tables = operation_tables(ranges, key[ranges.order], reported)
    losses = [*ranges.losses("NVTX range"), *lost_operations(ranges, tables, "NVTX range")]
    return tables, losses


def _async_ranges(
    names: NvtxNames, process_ids: NDArray[np.int32], parts: list[Ranges]
) -> dict[str, list[Any]]:
    rows = [
        row
        for part in parts
        for row in zip(
            process_ids[part.owner].tolist(), part.start_ns.tolist(), part.end_ns.tolist(),
            _values(names.texts, part.text, UNNAMED),
            _values(names.domains, part.domain, None),
            strict=True,
        )
    ]  # fmt: skip
    columns = zip(*rows, strict=True) if rows else [()] * 5
    keys = ("process_id", "start_ns", "end_ns", "name", "domain")
    return {key: list(column) for key, column in zip(keys, columns, strict=True)}


def _strings(names: Names) -> dict[str, list[Any]]:
    values = names.values()
    return {"string_id": list(range(1, len(values) + 1)), "value": values}


def _values(names: Names, numbers: NDArray[Any], unnamed: str | None) -> list[str | None]:
    known = [unnamed, *names.values()]
    return [known[number] for number in numbers.tolist()]
