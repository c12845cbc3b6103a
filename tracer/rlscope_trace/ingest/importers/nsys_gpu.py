"""GPU activities of Nsight Systems exports: kernels, copies, sets, graphs, synchronisation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema.vocabulary import GPU_ACTIVITY_KINDS
from rlscope_trace.cuda_names import COPY_NAMES, SET_NAME, SYNC_NAMES, graph_name
from rlscope_trace.ingest.importers.nsys_owners import UNKNOWN
from rlscope_trace.ingest.importers.nsys_source import Source, filled, missing
from rlscope_trace.ingest.importers.nsys_sqlite import Columns

# CUPTI says so where a synchronisation concerns no stream in particular.
_NO_STREAM = 0xFFFFFFFF
_MAX_DEVICE_ID = (1 << 31) - 1
# The driver moves pages of unified memory when they are touched: no call asked for it.
_UNASKED_COPIES = (11, 12, 13)
# With its template arguments, as other tools show it.
_KERNEL_NAME = "demangledName|shortName|mangledName"
_PLACE = ("deviceId", "contextId", "streamId", "correlationId", "globalPid")
_SYNC = GPU_ACTIVITY_KINDS.index("sync")


@dataclass(frozen=True, slots=True)
class _Kind:
    kind: str
    table: str
    columns: tuple[str, ...]
    name: Callable[[Source, Columns], NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class Activities:
    """Equally long columns as in gpu_activity_coded; masked where NULL."""

    process: NDArray[np.int32]
    """As Owners numbers them."""
    columns: Columns
    unasked: NDArray[np.bool_]
    """Which need no call to have caused them."""

    @property
    def kind(self) -> NDArray[np.uint8]:
        """Return the code of the kind of each."""
        return self.columns["kind"]


def read_activities(source: Source) -> Iterator[Activities]:
    """Read all GPU activities of an export, table by table."""
    for kind in _KINDS:
        columns = source.read_intervals(kind.table, (*_PLACE, *kind.columns))
        if columns is not None:
            yield _activities(source, kind, columns)


def _activities(source: Source, kind: _Kind, read: Columns) -> Activities:
    starts, ends = read["start"], read["end"]
    rows = len(starts)
    names = kind.name(source, read)
    correlations = _without(read.get("correlationId"), 0, rows)
    code = GPU_ACTIVITY_KINDS.index(kind.kind)
    unasked = np.full(rows, code == _SYNC)
    if "copyKind" in read:
        unasked |= np.isin(filled(read["copyKind"]), _UNASKED_COPIES)
    graphs = read.get("graphId")
    if kind.kind != "graph":
        graphs = _without(graphs, 0, rows)
    columns: Columns = {
        "device_id": _device_ids(read.get("deviceId"), rows),
        "context_id": _nullable(read.get("contextId"), rows),
        "stream_id": _without(read.get("streamId"), _NO_STREAM, rows),
        "start_ns": starts,
        "end_ns": ends,
        "kind": np.full(rows, code, dtype=np.uint8),
        "name_id": np.ma.MaskedArray(names, mask=names == 0),
        "correlation_id": correlations,
        "graph_id": _nullable(graphs, rows),
        "bytes": _nullable(read.get("bytes"), rows),
    }
    pids = _pids(source, filled(read.get("globalPid"), rows=rows))
    process = source.owners.processes_at(source.index, pids, starts, ends)
    return Activities(process, columns, unasked & missing(correlations))


def _pids(source: Source, pids: NDArray[Any]) -> NDArray[Any]:
    """Fill in a process that the export does not tell, where it has only one."""
    known = source.owners.pids_of_file(source.index)
    return np.where(pids == UNKNOWN, np.int64(known[0]), pids) if len(known) == 1 else pids


def _nullable(column: NDArray[Any] | None, rows: int) -> NDArray[Any]:
    """Return a column, of NULLs if there is none."""
    if column is None:
        return np.ma.MaskedArray(np.zeros(rows, dtype=np.int32), mask=np.ones(rows, dtype=bool))
    return column


def _device_ids(column: NDArray[Any] | None, rows: int) -> NDArray[Any]:
    """Return the numbers of devices; a number that no device has is none."""
    known = _nullable(column, rows)
    data = np.ma.getdata(known)
    return np.ma.MaskedArray(data, mask=missing(known) | (data < 0) | (data > _MAX_DEVICE_ID))


def _without(column: NDArray[Any] | None, value: int, rows: int) -> np.ma.MaskedArray[Any, Any]:
    """Return a column with NULL instead of a value that stands for none."""
    known = _nullable(column, rows)
    data = np.ma.getdata(known)
    return np.ma.MaskedArray(data, mask=missing(known) | (data == value))


def _kernel_names(source: Source, read: Columns) -> NDArray[np.int32]:
    return source.numbered(read.get(_KERNEL_NAME), len(read["start"]))


def _copy_names(source: Source, read: Columns) -> NDArray[np.int32]:
    return _coded_names(source, read, "copyKind", "ENUM_CUDA_MEMCPY_OPER", COPY_NAMES, "Memcpy")


def _sync_names(source: Source, read: Columns) -> NDArray[np.int32]:
    return _coded_names(source, read, "syncType", "ENUM_CUPTI_SYNC_TYPE", SYNC_NAMES, "Sync")


def _coded_names(  # noqa: PLR0913 - which column means what
    source: Source, read: Columns, column: str, enum: str, known: dict[int, str], what: str
) -> NDArray[np.int32]:
    codes, place = np.unique(filled(read.get(column), 0, len(read["start"])), return_inverse=True)
    labels = dict(source.file.rows(enum, id=int, label=str))
    names = [known.get(code) or f"{what} ({labels.get(code) or code})" for code in codes.tolist()]
    return np.array([source.names.number(name) for name in names], dtype=np.int32)[place]


def _set_names(source: Source, read: Columns) -> NDArray[np.int32]:
    return np.full(len(read["start"]), source.names.number(SET_NAME), dtype=np.int32)


def _graph_names(source: Source, read: Columns) -> NDArray[np.int32]:
    graphs, place = np.unique(
        filled(read.get("graphId"), -1, len(read["start"])), return_inverse=True
    )
    names = [graph_name(None if graph < 0 else graph) for graph in graphs.tolist()]
    return np.array([source.names.number(name) for name in names], dtype=np.int32)[place]


_KINDS = (
    _Kind(
        "kernel",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        ("graphId", _KERNEL_NAME),
        _kernel_names,
    ),
    _Kind("memcpy", "CUPTI_ACTIVITY_KIND_MEMCPY", ("graphId", "bytes", "copyKind"), _copy_names),
    _Kind("memset", "CUPTI_ACTIVITY_KIND_MEMSET", ("graphId", "bytes"), _set_names),
    _Kind("graph", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", ("graphId",), _graph_names),
    _Kind("sync", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", ("syncType",), _sync_names),
)

GPU_TABLES = frozenset(kind.table for kind in _KINDS)
