"""Files of the PyTorch profiler as the tables of one trace: a process per file and pid."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema.vocabulary import GPU_ACTIVITY_KINDS, LAYERS
from rlscope_trace._ingest import MISSING
from rlscope_trace.cuda_names import cuda_call_kind
from rlscope_trace.ingest.importers.kineto_collectives import RankActivities, find_collectives
from rlscope_trace.ingest.importers.kineto_file import Columns, KinetoFile
from rlscope_trace.ingest.importers.kineto_processes import INT32_MAX, KinetoProcesses
from rlscope_trace.ingest.importers.nesting import OperationNames, lost_operations, operation_tables
from rlscope_trace.ingest.store.nested_ranges import nest_ranges
from rlscope_trace.ingest.writer.columns import Column, Table
from rlscope_trace.ingest.writer.trace_stats import TraceStat

# What a slice is, by code: Role in tracer/native/import/kineto_columns.h.
_ROLES = (
    "operation", "cpu_op", "python_function", "call", "kernel", "memcpy", "memset", "sync",
)  # fmt: skip
_OPERATION, _CPU_OP, _PYTHON = range(3)
_LAYER_OF_ROLE = np.array(
    [0, LAYERS.index("backend"), LAYERS.index("python"), LAYERS.index("cuda_api")], dtype=np.uint8
)
_ACTIVITY_KIND_OF_ROLE = np.array(
    [GPU_ACTIVITY_KINDS.index(role) if role in GPU_ACTIVITY_KINDS else 0 for role in _ROLES],
    dtype=np.uint8,
)
# As Kineto writes a Python function: torch/nn/modules/module.py(1501): _call_impl
_PYTHON_FUNCTION = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<name>.+)", re.DOTALL)


@dataclass(slots=True)
class _Names:
    """Names of all files, numbered from 0."""

    ids: dict[str, int] = field(default_factory=dict)

    def map(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of each name of a file."""
        return np.array(
            [self.ids.setdefault(name, len(self.ids)) for name in names], dtype=np.int64
        )

    def list(self) -> list[str]:
        return list(self.ids)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A file with its times on the clock of the trace, and ids of the trace in place of its own."""

    file: KinetoFile
    ranges: dict[str, NDArray[Any]]
    calls: dict[str, NDArray[Any]]
    activities: dict[str, NDArray[Any]]
    process_ids: tuple[int, ...]
    has_clock: bool


@dataclass(slots=True)
class KinetoTables:
    """Collects files, then makes tables of them."""

    names: _Names = field(default_factory=_Names)
    placed: list[_Placed] = field(default_factory=list)
    owners: KinetoProcesses = field(default_factory=KinetoProcesses)
    losses: list[TraceStat] = field(default_factory=list)

    def add(self, file: KinetoFile, *, shift_ns: int | None) -> tuple[int, ...]:
        """Add a file whose times are shifted so much; returns its process_ids.

        shift_ns: None if they fit to those of no other file.
        """
        names = self.names.map(file.names)
        columns = [
            {
                **source,
                "start_ns": source["start_ns"] + (shift_ns or 0),
                "end_ns": source["end_ns"] + (shift_ns or 0),
                "name": names[source["name"]] if len(names) else source["name"],
            }
            for source in (file.ranges, file.calls, file.activities)
        ]
        ranges, calls, activities = columns
        process_ids = self.owners.place(file, ranges, calls, activities)
        self.placed.append(
            _Placed(file, ranges, calls, activities, process_ids, shift_ns is not None)
        )
        return process_ids

    def tables(self) -> dict[str, Table]:
        """Return the tables of processes, threads, operations, calls and GPU activities."""
        collectives = self._collectives()
        names = self.names.list()
        strings = _Strings(names)
        ranges = _joined([placed.ranges for placed in self.placed])
        calls = _joined([placed.calls for placed in self.placed])
        activities = _joined([placed.activities for placed in self.placed])
        is_operation = ranges["role"] == _OPERATION
        return {
            "process": _rows(self.owners.processes),
            "thread": _rows(self.owners.threads),
            **self._operations(_where(ranges, is_operation), names),
            **self._native_calls(_where(ranges, ~is_operation), names),
            "cuda_call_coded": _cuda_calls(calls, names, strings),
            "gpu_activity_coded": _gpu_activities(activities, strings),
            "gpu_event_wait": _event_waits(activities),
            "gpu_collective_coded": _collectives(collectives, strings),
            "string": strings.table(),
        }

    def _operations(self, ranges: Columns, names: list[str]) -> dict[str, Table]:
        nested = nest_ranges(ranges["thread_id"], ranges["start_ns"], ranges["end_ns"])
        used, key = np.unique(ranges["name"][nested.order], return_inverse=True)
        nothing = [None] * len(used)
        reported = OperationNames(
            name=[names[name] for name in used.tolist()],
            domain=nothing,
            category=nothing,
            source=["record_function"] * len(used),
        )
        tables = operation_tables(nested, key, reported)
        # Those that lie too deep are left out, whatever their depth.
        crossings = (loss for loss in nested.losses("operation") if loss.code == "not_nested")
        self.losses += [*crossings, *lost_operations(nested, tables, "operation")]
        return tables

    def _collectives(self) -> dict[str, NDArray[Any]] | None:
        """Return the kernels that are a collective, with the numbers of their names."""
        ranks = [RankActivities(one.file, one.activities, one.has_clock) for one in self.placed]
        found = find_collectives(ranks)
        if found is None:
            return None
        self.losses += found.losses
        rows = dict(found.rows)
        for column, texts in (("name", found.names), ("group", found.groups)):
            rows[column] = self.names.map(texts)[rows[column]]
        return rows

    def _native_calls(self, ranges: Columns, names: list[str]) -> dict[str, Table]:
        nested = nest_ranges(ranges["thread_id"], ranges["start_ns"], ranges["end_ns"])
        self.losses += nested.losses("native call")
        role, name = ranges["role"][nested.order], ranges["name"][nested.order]
        used, site = np.unique(name.astype(np.int64) * len(_ROLES) + role, return_inverse=True)
        layer = _LAYER_OF_ROLE[role]
        has_parent = nested.parent >= 0
        parent_layer = np.where(has_parent, layer[nested.parent], 0) if len(layer) else layer
        return {
            "native_call_coded": {
                "thread_id": nested.thread_id,
                "start_ns": nested.start_ns,
                "end_ns": nested.end_ns,
                "layer": layer,
                "parent_layer": parent_layer,
                "depth": nested.stored_depth(),
                "site_id": (site + 1).astype(np.int32),
            },
            "site": _sites(used.tolist(), names),
        }


class _Strings:
    """The table string: the names that calls and activities use."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._ids = np.zeros(len(names), dtype=np.int32)
        self._used: list[str] = []

    def ids_of(self, names: NDArray[np.int64]) -> NDArray[np.int32]:
        for name in np.unique(names).tolist():
            if not self._ids[name]:
                self._used.append(self._names[name])
                self._ids[name] = len(self._used)
        return self._ids[names]

    def table(self) -> Table:
        return {"string_id": list(range(1, len(self._used) + 1)), "value": self._used}


def _cuda_calls(calls: Columns, names: list[str], strings: _Strings) -> Table:
    used, place = np.unique(calls["name"], return_inverse=True)
    kinds = np.array([cuda_call_kind(names[name]) for name in used.tolist()], dtype=np.uint8)
    return {
        "thread_id": calls["thread_id"],
        "start_ns": calls["start_ns"],
        "end_ns": calls["end_ns"],
        "kind": kinds[place],
        "name_id": strings.ids_of(calls["name"]),
        "correlation_id": _masked(calls["correlation"]),
    }


def _devices(activities: Columns) -> NDArray[Any]:
    # A number that no device has is none.
    return np.ma.masked_greater(_masked(activities["device"]), INT32_MAX)


def _event_waits(activities: Columns) -> Table:
    waits = _where(activities, activities["event_correlation"] != MISSING)
    return {
        "process_id": waits["process_id"],
        "correlation_id": _masked(waits["correlation"]),
        "device_id": _devices(waits),
        "stream_id": _masked(waits["stream"]),
        "event_stream_id": _masked(waits["event_stream"]),
        "event_correlation_id": waits["event_correlation"],
    }


def _collectives(rows: Columns | None, strings: _Strings) -> Table:
    if rows is None:
        return {}
    return {
        **{
            name: rows[name]
            for name in ("collective_id", "sequence", "process_id", "start_ns", "end_ns")
        },
        "name_id": strings.ids_of(rows["name"]),
        "process_group_id": strings.ids_of(rows["group"]),
        "device_id": _devices(rows),
        "stream_id": _masked(rows["stream"]),
        "correlation_id": _masked(rows["correlation"]),
    }


def _gpu_activities(activities: Columns, strings: _Strings) -> Table:
    return {
        "process_id": activities["process_id"],
        "device_id": _devices(activities),
        "context_id": _masked(activities["context"]),
        "stream_id": _masked(activities["stream"]),
        "start_ns": activities["start_ns"],
        "end_ns": activities["end_ns"],
        "kind": _ACTIVITY_KIND_OF_ROLE[activities["role"]],
        "name_id": strings.ids_of(activities["name"]),
        "correlation_id": _masked(activities["correlation"]),
        "graph_id": _masked(activities["graph"]),
        "bytes": _masked(activities["bytes"]),
    }


def _sites(used: list[int], names: list[str]) -> Table:
    rows = []
    for site_id, key in enumerate(used, 1):
        name, role = names[key // len(_ROLES)], key % len(_ROLES)
        module, symbol = ("torch", name) if role == _CPU_OP else _python_site(name)
        rows.append(
            {
                "site_id": site_id,
                "module": module,
                "symbol": symbol,
                "layer": LAYERS[_LAYER_OF_ROLE[role]],
                "state": "imported",
            }
        )
    return _rows(rows)


def _python_site(name: str) -> tuple[str | None, str]:
    """Split the name of a Python function into its file, and the function with its line."""
    parts = _PYTHON_FUNCTION.fullmatch(name)
    return (parts["file"], f"{parts['name']}:{parts['line']}") if parts else (None, name)


def _joined(sources: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([source[name] for source in sources]) for name in sources[0]}


def _where(columns: Columns, chosen: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    return {name: column[chosen] for name, column in columns.items()}


def _rows(rows: list[dict[str, Any]]) -> Table:
    columns: dict[str, Column] = {}
    for name in rows[0] if rows else ():
        columns[name] = [row[name] for row in rows]
    return columns


def _masked(column: NDArray[np.int64]) -> NDArray[Any]:
    return np.ma.masked_equal(column, MISSING)
