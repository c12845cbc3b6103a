"""Builds small exports of Nsight Systems for tests, with the tables that several versions write.

builder = NsysBuilder(tmp_path / "report.sqlite", schema="2026")
builder.call(100, 110, correlation=1)
builder.kernel(120, 150, correlation=1)
path = builder.write()
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from finalising import ended, report_nothing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rlscope_trace.ingest.writer.trace_writer import TraceReport

PID, TID = 4242, 4243
EPOCH_NS = 1_776_781_226_557_295_056
PUSH_POP, START_END, MARK, DOMAIN, CATEGORY = 59, 60, 34, 75, 33

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
_GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"

# Columns that a version does not write, by table; None: it does not write the table.
LACKING: Mapping[str, Mapping[str, tuple[str, ...] | None]] = {
    "2026": {},
    "2024": {_KERNEL: ("graphId",), "TARGET_INFO_SESSION_START_TIME": ("systemClockNs",)},
    "2020": {
        _KERNEL: ("graphId", "graphNodeId", "mangledName"),
        _MEMCPY: ("graphNodeId",),
        _GRAPH: None,
        "NVTX_EVENTS": ("domainId", "category", "jsonText"),
        "SCHED_EVENTS": ("threadState", "threadBlock"),
        "META_DATA_EXPORT": None,
        "META_DATA_CAPTURE": None,
        "TARGET_INFO_SESSION_START_TIME": None,
        "TARGET_INFO_CUDA_DEVICE": None,
        "TARGET_INFO_GPU": ("uuid", "cuDevice"),
        "PROCESSES": None,
    },
    # What a script keeps that copies only what it needs.
    "bare": {
        _KERNEL: ("graphId", "graphNodeId", "mangledName", "shortName", "contextId", "globalPid"),
        _RUNTIME: ("globalTid", "eventClass", "returnValue"),
        "NVTX_EVENTS": ("eventType", "globalTid", "domainId", "category", "textId", "rangeId"),
        "ThreadNames": None,
        "PROCESSES": None,
        "TARGET_INFO_SESSION_START_TIME": None,
        "TARGET_INFO_GPU": None,
        "TARGET_INFO_CUDA_DEVICE": None,
        "TARGET_INFO_SYSTEM_ENV": None,
        "META_DATA_EXPORT": None,
        "ANALYSIS_DETAILS": None,
    },
}
_SHARED_GPU = (
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"
)  # fmt: skip
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "StringIds": ("id", "value"),
    _KERNEL: (
        *_SHARED_GPU, "demangledName", "shortName", "mangledName", "graphNodeId", "graphId"
    ),
    _MEMCPY: (*_SHARED_GPU, "bytes", "copyKind", "graphNodeId"),
    _MEMSET: (*_SHARED_GPU, "bytes", "value"),
    _GRAPH: (*_SHARED_GPU, "graphId", "graphExecId"),
    _SYNC: (*_SHARED_GPU, "syncType", "eventId"),
    _RUNTIME: (
        "start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue"
    ),
    "NVTX_EVENTS": (
        "start", "end", "eventType", "rangeId", "category", "text", "globalTid", "endGlobalTid",
        "textId", "domainId", "jsonText",
    ),
    "SCHED_EVENTS": ("start", "cpu", "isSchedIn", "globalTid", "threadState", "threadBlock"),
    "OSRT_API": ("start", "end", "globalTid", "nameId"),
    "ThreadNames": ("nameId", "priority", "globalTid"),
    "PROCESSES": ("globalPid", "pid", "name"),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", "utcTime", "localTime", "systemClockNs"),
    "TARGET_INFO_SYSTEM_ENV": ("globalVid", "devStateName", "name", "nameEnum", "value"),
    "TARGET_INFO_GPU": (
        "vmId", "id", "name", "totalMemory", "smCount", "uuid", "cuDevice", "computeMajor",
        "computeMinor", "clockRate", "memoryBandwidth",
    ),
    "TARGET_INFO_CUDA_DEVICE": ("gpuId", "cudaId", "pid", "uuid"),
    "ANALYSIS_DETAILS": ("globalVid", "duration", "startTime", "stopTime"),
    "META_DATA_EXPORT": ("name", "value"),
    "META_DATA_CAPTURE": ("name", "value"),
    "DIAGNOSTIC_EVENT": ("timestamp", "severity", "text"),
    "ENUM_SAMPLING_THREAD_STATE": ("id", "name", "label"),
    "ENUM_CUDA_MEMCPY_OPER": ("id", "name", "label"),
}  # fmt: skip


def global_id(pid: int, tid: int = 0, *, vm: int = 1) -> int:
    """Serialize a process or thread as nsys does."""
    return (1 << 56) | (vm << 48) | (pid << 24) | tid


@dataclass
class NsysBuilder:
    """Collects rows by table; a table without rows is not written, as nsys does it."""

    path: Path
    schema: str = "2026"
    epoch_ns: int | None = EPOCH_NS
    duration_ns: int | None = None
    host: str | None = "trainer"
    with_empty_tables: bool = False
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _strings: dict[str, int] = field(default_factory=dict)

    def row(self, table: str, **values: object) -> None:
        """Add a row to any table."""
        self._rows.setdefault(table, []).append(values)

    def string(self, value: str | None) -> int | None:
        """Return the id of a string, a new one if it is new."""
        return None if value is None else self._strings.setdefault(value, len(self._strings) + 1)

    def call(
        self,
        start: int,
        end: int | None,
        *,
        name: str = "cudaLaunchKernel_v7000",
        correlation: int | None = None,
        pid: int = PID,
        tid: int = TID,
    ) -> None:
        """Add a call of the CUDA runtime or driver."""
        self.row(
            _RUNTIME, start=start, end=end, eventClass=0, globalTid=global_id(pid, tid),
            correlationId=correlation, nameId=self.string(name), returnValue=0,
        )  # fmt: skip

    def kernel(
        self,
        start: int,
        end: int,
        *,
        name: str = "void gemm<float>(T1)",
        correlation: int | None = None,
        pid: int = PID,
        device: int | None = 0,
        stream: int | None = 7,
        **more: object,
    ) -> None:
        """Add a kernel."""
        values = {
            "start": start, "end": end, "deviceId": device, "contextId": 1, "streamId": stream,
            "correlationId": correlation, "globalPid": global_id(pid),
            "demangledName": self.string(name), "shortName": self.string("gemm"),
            "mangledName": self.string("_Z4gemm"),
        }  # fmt: skip
        self.row(_KERNEL, **{**values, **more})

    def activity(self, table: str, start: int, end: int, *, pid: int = PID, **more: object) -> None:
        """Add a MEMCPY, MEMSET, GRAPH_TRACE or SYNCHRONIZATION."""
        values: dict[str, object] = {
            "start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7,
            "globalPid": global_id(pid),
        }  # fmt: skip
        self.row(f"CUPTI_ACTIVITY_KIND_{table}", **{**values, **more})

    def nvtx(
        self,
        start: int,
        end: int | None,
        text: str | None,
        *,
        kind: int = PUSH_POP,
        registered: bool = False,
        domain: int = 0,
        category: int | None = None,
        pid: int = PID,
        tid: int = TID,
    ) -> None:
        """Add an NVTX event; its text is its own, or a registered string."""
        self.row(
            "NVTX_EVENTS", start=start, end=end, eventType=kind, category=category,
            text=None if registered else text, textId=self.string(text) if registered else None,
            globalTid=global_id(pid, tid), domainId=domain,
        )  # fmt: skip

    def switch(
        self,
        start: int,
        *,
        into: bool,
        state: int | None = None,
        cpu: int = 0,
        pid: int = PID,
        tid: int = TID,
    ) -> None:
        """Add a context switch of a thread into a CPU, or out of it into a state."""
        self.row(
            "SCHED_EVENTS", start=start, cpu=cpu, isSchedIn=int(into),
            globalTid=global_id(pid, tid), threadState=state,
        )  # fmt: skip

    def name_thread(self, name: str, *, pid: int = PID, tid: int = TID, priority: int = 20) -> None:
        """Name a thread."""
        self.row(
            "ThreadNames",
            nameId=self.string(name),
            priority=priority,
            globalTid=global_id(pid, tid),
        )

    def write(self) -> Path:
        """Write the export."""
        self._describe()
        lacking = LACKING[self.schema]
        with closing(sqlite3.connect(self.path)) as connection:
            for table, columns in _COLUMNS.items():
                absent = lacking.get(table, ())
                if absent is None or not (self._rows.get(table) or self.with_empty_tables):
                    continue
                kept = [column for column in columns if column not in absent]
                self._write_table(connection, table, kept)
            for table in self._rows.keys() - _COLUMNS.keys():
                self._write_table(connection, table, list(self._rows[table][0]))
            connection.commit()
        return self.path

    def _describe(self) -> None:
        if self.epoch_ns is not None:
            self.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=self.epoch_ns)
        if self.duration_ns is not None:
            self.row("ANALYSIS_DETAILS", duration=self.duration_ns)
        if self.host is not None:
            self.row("TARGET_INFO_SYSTEM_ENV", name="Hostname", value=self.host)
        self.row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value=self.schema)
        for value, key in self._strings.items():
            self.row("StringIds", id=key, value=value)

    def _write_table(self, connection: sqlite3.Connection, table: str, columns: list[str]) -> None:
        names = ", ".join(f'"{column}"' for column in columns)
        connection.execute(f'CREATE TABLE "{table}" ({names})')  # untyped, as any value may come
        marks = ", ".join("?" * len(columns))
        connection.executemany(
            f'INSERT INTO "{table}" VALUES ({marks})',
            [[row.get(column) for column in columns] for row in self._rows.get(table, [])],
        )


@dataclass(frozen=True)
class Imported:
    """The trace made of some exports."""

    report: TraceReport

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Query the trace."""
        with duckdb.connect(str(self.report.output), read_only=True) as connection:
            return connection.execute(sql).fetchall()

    def losses(self) -> dict[tuple[str, str], int | None]:
        """Return how many of what were lost."""
        return {
            (loss.kind, " ".join(filter(None, (loss.code, loss.record, loss.detail)))): loss.count
            for loss in self.report.losses
        }


def imported(*paths: Path) -> Imported:
    """Import exports into a trace beside the first, without views."""
    from rlscope_trace.ingest.importers.nsys import import_nsys

    output = paths[0].with_suffix(".duckdb")
    return Imported(ended(import_nsys(paths, output, overwrite=True, progress=report_nothing)))
