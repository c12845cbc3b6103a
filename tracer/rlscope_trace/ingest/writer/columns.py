"""Columns on their way into a table: their lengths, their stored order, their batches."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema.enums import ENUMS, word_of

Column: TypeAlias = NDArray[Any] | Sequence[str | int | bool | None]
"""Numbers as a numpy array, masked where NULL, of words their codes; text, or a few rows of
anything, as a list with None where NULL."""
Table: TypeAlias = Mapping[str, Column]

# Tables stored in the order of (process, thread, start_ns, depth): an outer range before those in
# it. Their rows know their thread only.
_BY_THREAD = frozenset(
    {
        "thread_state_coded",
        "operation_coded",
        "native_call_coded",
        "wait_coded",
        "cuda_call_coded",
    }
)
_BY_PROCESS = frozenset({"gpu_activity_coded", "async_range_coded"})
_KEYS = {
    "process": "process_id",
    "thread": "thread_id",
    "site": "site_id",
    "string": "string_id",
    "operation_path": "path_id",
    "clock": "ts_ns",
}


def joined_column(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Put parts of a column below each other; NULLs stay masked."""
    if not parts:
        return np.empty(0, dtype=np.int64)
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        masks = [np.ma.getmaskarray(part) for part in parts]
        data = np.concatenate([np.ma.getdata(part) for part in parts])
        return np.ma.MaskedArray(data, mask=np.concatenate(masks))
    return np.concatenate(parts)


def row_count(name: str, table: Table) -> int:
    """Return the rows of a table; ValueError if its columns are not equally long."""
    lengths = {len(column) for column in table.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of {name} are not equally long: {sorted(lengths)}")
    return lengths.pop() if lengths else 0


def stored_order(name: str, table: Table, threads: Table | None) -> NDArray[np.int64] | None:
    """Return which row comes where, or None if the rows are in order already."""
    if name in _BY_THREAD:
        thread_ids = np.asarray(table["thread_id"])
        start_ns, end_ns = np.asarray(table["start_ns"]), np.asarray(table["end_ns"])
        # Of equal starts the longer one is around the others.
        keys = [_processes_of(thread_ids, threads), thread_ids, start_ns, -end_ns]
    elif name in _BY_PROCESS:
        keys = [np.asarray(table["process_id"]), np.asarray(table["start_ns"])]
    elif name in _KEYS:
        keys = [np.asarray(table[_KEYS[name]])]
    else:
        return None
    if _is_ordered(keys):
        return None
    return np.lexsort(keys[::-1]).astype(np.int64)


def _processes_of(thread_ids: NDArray[Any], threads: Table | None) -> NDArray[Any]:
    if threads is None:
        return np.zeros(len(thread_ids), dtype=np.int64)
    known = np.asarray(threads["thread_id"])
    order = np.argsort(known)
    place = np.searchsorted(known, thread_ids, sorter=order)
    return np.asarray(threads["process_id"])[order][np.minimum(place, len(known) - 1)]


def _is_ordered(keys: list[NDArray[Any]]) -> bool:
    """Tell whether no row has to move; keys from the most significant on."""
    undecided = np.ones(max(len(keys[0]) - 1, 0), dtype=bool)
    for key in keys:
        if bool(np.any(undecided & (key[1:] < key[:-1]))):
            return False
        undecided &= key[1:] == key[:-1]
    return True


def take(
    table: Table, types: Mapping[str, str], order: NDArray[np.int64] | None, begin: int, end: int
) -> tuple[dict[str, NDArray[Any]], list[str], list[object]]:
    """Cut a batch out of a table whose columns are of these types.

    Returns numpy columns for DuckDB to scan, the expression that makes each column of the table,
    and the values of its parameters.
    """
    batch: dict[str, NDArray[Any]] = {}
    selection: list[str] = []
    values: list[object] = []
    # A batch is scanned, or unnested: lists of a table that also has arrays are made arrays.
    has_arrays = any(isinstance(column, np.ndarray) for column in table.values())
    for name, column in table.items():
        rows = slice(begin, end) if order is None else order
        value = word_of(types[name], name) if types[name] in ENUMS else name
        if isinstance(column, np.ma.MaskedArray):
            batch[name] = np.ascontiguousarray(column.data[rows])
            batch[f"{name}_null"] = np.ascontiguousarray(np.ma.getmaskarray(column)[rows])
            selection.append(f"CASE WHEN NOT {name}_null THEN {value} END")
        elif isinstance(column, np.ndarray):
            batch[name] = np.ascontiguousarray(column[rows])
            selection.append(value)
        elif has_arrays:
            raise ValueError(f"{name} is a list in a table with arrays: make all of them lists")
        else:
            part = column[begin:end] if order is None else [column[row] for row in order]
            values.append(list(part))
            selection.append("unnest(?)")
    return batch, selection, values
