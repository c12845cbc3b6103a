"""The columns of a trace as bare_merge.cpp takes them: the yardstick of the sweep."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

_SOURCE = Path(__file__).with_suffix(".cpp")
# Calls of both tables nest, and count as one here.
_QUERIES = (
    "SELECT thread_id AS id, start_ns, end_ns, enum_code(state)::INTEGER AS value"
    " FROM thread_state_coded",
    "SELECT thread_id AS id, start_ns, end_ns, path_id AS value FROM operation_coded",
    "SELECT thread_id AS id, start_ns, end_ns, enum_code(layer)::INTEGER + 1 AS value"
    " FROM native_call_coded"
    " UNION ALL SELECT thread_id, start_ns, end_ns, 4 FROM cuda_call_coded"
    " ORDER BY id, start_ns, end_ns DESC",
    "SELECT process_id AS id, start_ns, end_ns, enum_code(kind)::INTEGER + 1 AS value"
    " FROM gpu_activity_coded",
)


class _Rows(ctypes.Structure):
    _fields_ = (
        ("start_ns", ctypes.c_void_p), ("end_ns", ctypes.c_void_p), ("value", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
    )  # fmt: skip


class _Thread(ctypes.Structure):
    _fields_ = tuple((name, _Rows) for name in ("states", "operations", "calls", "activities"))


def load(connection: duckdb.DuckDBPyConnection) -> Callable[[], int]:
    """Compile the yardstick and read a trace; what is returned runs one over the other."""
    merge = _compiled()
    tables = [connection.execute(query).fetchnumpy() for query in _QUERIES]
    threads = connection.execute(
        "SELECT thread_id, process_id FROM thread ORDER BY process_id, thread_id"
    ).fetchall()
    array = (_Thread * len(threads))(
        *(
            _Thread(*(_rows(table, of) for table, of in zip(tables, (t, t, t, p), strict=True)))
            for t, p in threads
        )
    )
    # The columns must live as long as the pointers into them.
    return lambda columns=tables: merge(array, len(threads)) if columns else 0  # type: ignore[misc]


def _compiled() -> Any:  # noqa: ANN401 - a function of ctypes
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "bare_merge.so"
        subprocess.run(
            ["c++", "-O3", "-std=c++17", "-shared", "-fPIC", "-o", library, _SOURCE], check=True
        )
        merge = ctypes.CDLL(str(library)).bare_merge
    merge.restype = ctypes.c_int64
    merge.argtypes = (ctypes.c_void_p, ctypes.c_int64)
    return merge


def _rows(table: dict[str, Any], of: int) -> _Rows:
    first, past = np.searchsorted(table["id"], [of, of + 1])
    return _Rows(
        *(
            table[name].ctypes.data + int(first) * table[name].itemsize
            for name in ("start_ns", "end_ns", "value")
        ),
        int(past - first),
    )
