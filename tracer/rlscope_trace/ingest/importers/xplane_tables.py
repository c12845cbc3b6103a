"""Profiles of JAX as the tables of one trace: a process per file."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.vocabulary import GPU_ACTIVITY_KINDS, LAYER_COVERAGE, LAYERS
from rlscope_trace.cuda_names import cuda_call_kind
from rlscope_trace.ingest.importers.nesting import OperationNames, lost_operations, operation_tables
from rlscope_trace.ingest.importers.xplane_file import Key, Line, Plane, XplaneFile
from rlscope_trace.ingest.importers.xplane_ranges import (
    Instructions,
    instructions_of,
    phase_ranges,
)
from rlscope_trace.ingest.store.nested_ranges import nest_ranges
from rlscope_trace.ingest.writer.columns import Table, joined_column
from rlscope_trace.ingest.writer.coverages import COVERAGE_COLUMNS, KindCoverage
from rlscope_trace.ingest.writer.trace_stats import TraceStat

INT32_MAX = 2**31 - 1
_HOST = "/host:"
_GPU = re.compile(r"/device:GPU:(?P<number>\d{1,9})")
_STREAM = re.compile(r"Stream #(?P<number>\d{1,9})")
# As JAX writes a Python function: $train.py:12 step, $builtins len.
_PYTHON = re.compile(r"\$(?P<file>.+?)(?::(?P<line>\d+))? (?P<name>.+)", re.DOTALL)
_BACKEND, _PYTHON_LAYER = LAYERS.index("backend"), LAYERS.index("python")
_KERNEL, _COPY, _SET = (GPU_ACTIVITY_KINDS.index(kind) for kind in ("kernel", "memcpy", "memset"))
HLO_SOURCE, STEP_SOURCE = "hlo", "jax"
Columns = dict[str, NDArray[Any]]


@dataclass(slots=True)
class _Numbers:
    """Values of a table, numbered from 1 in the order in which they are met."""

    ids: dict[Any, int] = field(default_factory=dict)

    def of(self, value: Any) -> int:  # noqa: ANN401 - anything that can be a key
        return self.ids.setdefault(value, len(self.ids) + 1)


@dataclass(slots=True)
class XplaneTables:
    """Collects files, then makes tables of them."""

    processes: list[dict[str, Any]] = field(default_factory=list)
    threads: list[dict[str, Any]] = field(default_factory=list)
    devices: dict[tuple[str | None, int], None] = field(default_factory=dict)
    coverages: list[KindCoverage] = field(default_factory=list)
    losses: list[TraceStat] = field(default_factory=list)
    _strings: _Numbers = field(default_factory=_Numbers)
    _sites: _Numbers = field(default_factory=_Numbers)
    _operations: _Numbers = field(default_factory=_Numbers)
    _ranges: list[Columns] = field(default_factory=list)
    _native: list[Columns] = field(default_factory=list)
    _calls: list[Columns] = field(default_factory=list)
    _activities: list[Columns] = field(default_factory=list)
    _skipped: dict[str, int] = field(default_factory=dict)

    def add(self, file: XplaneFile, *, shift_ns: int) -> None:
        """Add a file whose times are shifted so much."""
        process_id = len(self.processes) + 1
        what = instructions_of(file.keys, file.programs)
        extents: list[tuple[int, int]] = []
        launched: dict[int, int] = {}
        has_gpu, mapped = False, _Mapped()
        for plane in file.planes:
            device = _GPU.match(plane.name)
            for line in plane.lines:
                if device and (stream := _STREAM.match(line.name)) and len(line.key):
                    has_gpu = True
                    numbers = int(device["number"]), int(stream["number"])
                    self._add_stream(file, line, process_id, numbers, shift_ns)
                    launched.update(_launched(line, what))
                    extents.append(_extent(line, shift_ns))
                elif not plane.name.startswith(_HOST) and len(line.key):
                    name = f"{plane.name} {line.name}"
                    self._skipped[name] = self._skipped.get(name, 0) + len(line.key)
        for line in _host_lines(file.planes):
            extents.append(_extent(line, shift_ns))
            self._add_thread(line, process_id, extents[-1])
            self._add_events(file, line, _Context(what, launched, shift_ns, mapped))
        if not extents:
            return
        pids = [plane.pid for plane in file.planes if plane.pid is not None]
        self.processes.append(
            {
                "process_id": process_id,
                "host": file.host,
                "pid": pids[0] if pids else None,
                "start_ns": min(start_ns for start_ns, _ in extents),
                "end_ns": max(end_ns for _, end_ns in extents),
            }
        )
        self.coverages += _coverages(process_id, file, has_gpu=has_gpu, mapped=mapped)

    def _add_thread(self, line: Line, process_id: int, extent: tuple[int, int]) -> None:
        self.threads.append(
            {
                "thread_id": len(self.threads) + 1,
                "process_id": process_id,
                "tid": line.number if 0 < line.number <= INT32_MAX else None,
                "name": line.name or None,
                "start_ns": extent[0],
                "end_ns": extent[1],
            }
        )

    def _add_events(
        self,
        file: XplaneFile,
        line: Line,
        of_file: "_Context",
    ) -> None:
        """Add the events of a thread, which is the last of self.threads."""
        thread_id = len(self.threads)
        start_ns, end_ns, key, correlation = _columns(line, of_file.shift_ns)
        is_step = np.array([one.is_step for one in file.keys], dtype=bool)[key]
        is_call = correlation != 0
        self._add_calls(file, thread_id, (start_ns, end_ns, key, correlation), is_call)
        self._add_steps(file, thread_id, (start_ns, end_ns, key), is_step)
        rest = np.flatnonzero(~is_call & ~is_step)
        nested = nest_ranges(
            np.full(len(rest), thread_id, dtype=np.int32), start_ns[rest], end_ns[rest]
        )
        keys = key[rest][nested.order]
        self.losses += nested.losses("native call")
        sites = np.array([self._site(one) for one in file.keys], dtype=np.int64)
        layers = np.array(
            [_PYTHON_LAYER if _is_python(one) else _BACKEND for one in file.keys], dtype=np.uint8
        )[keys]
        inside = nested.parent >= 0
        self._native.append(
            {
                "thread_id": nested.thread_id,
                "start_ns": nested.start_ns,
                "end_ns": nested.end_ns,
                "layer": layers,
                "parent_layer": np.where(inside, layers[nested.parent], 0).astype(np.uint8)
                if len(layers)
                else layers,
                "depth": nested.stored_depth(),
                "site_id": sites[keys].astype(np.int32),
            }
        )
        found = phase_ranges(nested, keys, of_file.what)
        of_file.mapped.add(found.instruction_ns, found.unmapped_ns, found.unmapped_count)
        operation = [self._operations.of((name, HLO_SOURCE)) for name in of_file.what.names]
        self._add_ranges(
            thread_id,
            nested.start_ns[np.array(found.row, dtype=np.int64)],
            np.array(found.end_ns, dtype=np.int64),
            np.array([operation[code - 1] for code in found.code], dtype=np.int64),
        )
        codes = np.array(
            [of_file.launched.get(one, 0) for one in correlation.tolist()], dtype=np.int64
        )
        at = np.flatnonzero(codes)
        self._add_ranges(
            thread_id,
            start_ns[at],
            end_ns[at],
            np.array([operation[code - 1] for code in codes[at].tolist()], dtype=np.int64),
        )

    def _add_steps(
        self, file: XplaneFile, thread_id: int, columns: tuple[Any, ...], chosen: NDArray[Any]
    ) -> None:
        start_ns, end_ns, key = (column[chosen] for column in columns)
        names = [self._operations.of((file.keys[one].name, STEP_SOURCE)) for one in key.tolist()]
        self._add_ranges(thread_id, start_ns, end_ns, np.array(names, dtype=np.int64))

    def _add_ranges(
        self, thread_id: int, start_ns: NDArray[Any], end_ns: NDArray[Any], key: NDArray[Any]
    ) -> None:
        self._ranges.append(
            {
                "thread_id": np.full(len(key), thread_id, dtype=np.int32),
                "start_ns": start_ns,
                "end_ns": end_ns,
                "key": key,
            }
        )

    def _add_calls(
        self, file: XplaneFile, thread_id: int, columns: tuple[Any, ...], chosen: NDArray[Any]
    ) -> None:
        start_ns, end_ns, key, correlation = (column[chosen] for column in columns)
        names = [file.keys[one].name for one in key.tolist()]
        self._calls.append(
            {
                "thread_id": np.full(len(key), thread_id, dtype=np.int32),
                "start_ns": start_ns,
                "end_ns": end_ns,
                "kind": np.array([cuda_call_kind(name) for name in names], dtype=np.uint8),
                "name_id": np.array([self._strings.of(name) for name in names], dtype=np.int32),
                "correlation_id": correlation,
            }
        )

    def _add_stream(
        self,
        file: XplaneFile,
        line: Line,
        process_id: int,
        numbers: tuple[int, int],
        shift_ns: int,
    ) -> None:
        start_ns, end_ns, key, correlation = _columns(line, shift_ns)
        self.devices[file.host, numbers[0]] = None
        kinds = np.array([_activity_kind(one) for one in file.keys], dtype=np.uint8)
        names = np.array([self._strings.of(one.name) for one in file.keys], dtype=np.int32)
        rows = len(key)
        self._activities.append(
            {
                "process_id": np.full(rows, process_id, dtype=np.int32),
                "device_id": np.full(rows, numbers[0], dtype=np.int32),
                "stream_id": np.full(rows, numbers[1], dtype=np.int64),
                "start_ns": start_ns,
                "end_ns": end_ns,
                "kind": kinds[key],
                "name_id": names[key],
                "correlation_id": np.ma.masked_equal(correlation, 0),
            }
        )

    def _site(self, key: Key) -> int:
        """Return the site of the calls of a key."""
        if key.hlo_op is not None:
            return self._sites.of((key.module, key.hlo_op, _BACKEND))
        if _is_python(key) and (parts := _PYTHON.fullmatch(key.name)):
            name = f"{parts['name']}:{parts['line']}" if parts["line"] else parts["name"]
            return self._sites.of((parts["file"], name, _PYTHON_LAYER))
        return self._sites.of(("xla", key.name, _BACKEND))

    def tables(self) -> dict[str, Table]:
        """Return the tables of the trace, and add to the losses what these leave out."""
        sites = [(number, *site) for site, number in self._sites.ids.items()]
        rows: dict[str, Table] = {
            "process": _rows(self.processes),
            "thread": _rows(self.threads),
            "native_call_coded": _joined(self._native),
            "cuda_call_coded": _joined(self._calls),
            "gpu_activity_coded": _joined(self._activities),
            "site": {
                "site_id": [site[0] for site in sites],
                "module": [site[1] for site in sites],
                "symbol": [site[2] for site in sites],
                "layer": [LAYERS[site[3]] for site in sites],
                "state": ["imported"] * len(sites),
            },
            "gpu_device": {
                "host": [host for host, _ in self.devices],
                "device_id": [number for _, number in self.devices],
            },
            **self._operation_tables(),
        }
        rows["string"] = {
            "string_id": list(self._strings.ids.values()),
            "value": list(self._strings.ids),
        }
        stored = [row for one in self.coverages for row in one.rows()]
        rows["coverage"] = {
            name: [row[at] for row in stored] for at, name in enumerate(COVERAGE_COLUMNS)
        }
        for name, count in sorted(self._skipped.items()):
            self.losses.append(TraceStat("xplane_skipped", count, record=name[:200]))
        return rows

    def _operation_tables(self) -> dict[str, Table]:
        ranges = _joined(self._ranges)
        if not ranges or not len(ranges["key"]):
            return {}
        nested = nest_ranges(ranges["thread_id"], ranges["start_ns"], ranges["end_ns"])
        known = list(self._operations.ids)
        nothing = [None] * len(known)
        names = OperationNames(
            name=[name for name, _ in known],
            domain=nothing,
            category=nothing,
            source=[source for _, source in known],
        )
        tables = operation_tables(nested, ranges["key"][nested.order] - 1, names)
        self.losses += nested.losses("operation")[:1]
        self.losses += lost_operations(nested, tables, "operation")
        return tables


@dataclass(slots=True)
class _Mapped:
    """How much of the instructions has a phase."""

    instruction_ns: int = 0
    unmapped_ns: int = 0
    unmapped_count: int = 0

    def add(self, instruction_ns: int, unmapped_ns: int, unmapped_count: int) -> None:
        self.instruction_ns += instruction_ns
        self.unmapped_ns += unmapped_ns
        self.unmapped_count += unmapped_count


@dataclass(slots=True)
class _Context:
    """What all threads of a file have in common."""

    what: Instructions
    launched: dict[int, int]
    """Phase of what a call launched, by correlation."""
    shift_ns: int
    mapped: _Mapped


def _coverages(
    process_id: int, file: XplaneFile, *, has_gpu: bool, mapped: _Mapped
) -> Iterable[KindCoverage]:
    phases = Fact("xplane_no_programs")
    if file.programs:
        phases = Fact(
            "xplane_phases",
            detail=_share(mapped.unmapped_ns, mapped.instruction_ns),
            count=mapped.unmapped_count,
        )
    yield KindCoverage(process_id, "operation", True, (phases,))
    yield KindCoverage(process_id, "native_call", True, (Fact("xplane"),))
    simulator = LAYER_COVERAGE.format(layer="simulator")
    yield KindCoverage(process_id, simulator, False, (Fact("xplane_no_simulator"),))
    for kind in ("cuda_call", "gpu_activity"):
        fact = Fact("xplane") if has_gpu else Fact("xplane_no_gpu")
        yield KindCoverage(process_id, kind, has_gpu, (fact,))


def _share(part_ns: int, whole_ns: int) -> str:
    return f"{100 * part_ns / whole_ns:.1f} %" if whole_ns else "none"


def _host_lines(planes: Iterable[Plane]) -> Iterable[Line]:
    for plane in planes:
        if plane.name.startswith(_HOST):
            yield from (line for line in plane.lines if len(line.key))


def _launched(line: Line, what: Instructions) -> dict[int, int]:
    """Return the phase of what each call gave to a stream, by its correlation."""
    phases = what.phase[np.asarray(line.key)].tolist()
    return {
        correlation: phase
        for correlation, phase in zip(line.correlation, phases, strict=True)
        if correlation and phase
    }


def _is_python(key: Key) -> bool:
    return key.hlo_op is None and key.name.startswith("$")


def _activity_kind(key: Key) -> int:
    if key.is_copy or key.name.startswith("Memcpy"):
        return _COPY
    return _SET if key.name.startswith("Memset") else _KERNEL


def _columns(line: Line, shift_ns: int) -> tuple[NDArray[Any], ...]:
    start_ns, end_ns, key, correlation = (
        np.array(column, dtype=np.int64)
        for column in (line.start_ns, line.end_ns, line.key, line.correlation)
    )
    return start_ns + shift_ns, end_ns + shift_ns, key, correlation


def _extent(line: Line, shift_ns: int) -> tuple[int, int]:
    return min(line.start_ns) + shift_ns, max(line.end_ns) + shift_ns


def _joined(parts: list[Columns]) -> Columns:
    return {
        name: joined_column([part[name] for part in parts]) for name in (parts[0] if parts else ())
    }


def _rows(rows: list[dict[str, Any]]) -> Table:
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
