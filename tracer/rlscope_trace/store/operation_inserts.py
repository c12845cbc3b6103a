"""Columns of operations into the tables of the database: row by row it would take minutes.

DuckDB finds the columns by the name of the parameter that holds them. 0 and "" stand for none.
"""

from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]


def insert_operations(con: duckdb.DuckDBPyConnection, batch: Columns) -> None:
    """Insert thread_id, start_ns, end_ns (ns) and path_id."""
    con.execute(
        "INSERT INTO operation_coded SELECT thread_id, start_ns, end_ns, path_id FROM batch"
    )


def texts_column(values: Sequence[str | None]) -> NDArray[Any]:
    """Return a column of texts, "" for none: numpy's own would cut a NUL at the end."""
    column = np.empty(len(values), dtype=object)
    column[:] = [value or "" for value in values]
    return column


def insert_paths(con: duckdb.DuckDBPyConnection, batch: Columns) -> int:
    """Insert the columns of operation_path, `parent` being the path around; return how many."""
    con.execute(
        "INSERT INTO operation_path (path_id, parent_path_id, name, domain, category, source,"
        " depth, color) SELECT path_id, nullif(parent, 0), name, nullif(domain, ''),"
        " nullif(category, ''), source, depth, nullif(color, 0) FROM batch"
    )
    return len(batch["path_id"])


def insert_async_ranges(con: duckdb.DuckDBPyConnection, batch: Columns) -> int:
    """Insert start/end ranges in their order (ns); return how many."""
    con.execute(
        "INSERT INTO async_range SELECT process_id, start_ns, end_ns, name, nullif(domain, '')"
        " FROM batch ORDER BY process_id, start_ns"
    )
    return len(batch["start_ns"])


def insert_marks(con: duckdb.DuckDBPyConnection, batch: Columns) -> int:
    """Insert marks in their order (ts_ns); return how many."""
    con.execute(
        "INSERT INTO mark SELECT thread_id, ts_ns, name, nullif(domain, ''), nullif(category, '')"
        " FROM batch ORDER BY process_id, thread_id, ts_ns"
    )
    return len(batch["ts_ns"])


def insert_payloads(con: duckdb.DuckDBPyConnection, batch: Columns) -> None:
    """Insert the payloads of operations, whose 64 bits are what payload_type says."""
    batch = {
        **{name: batch[name] for name in ("thread_id", "start_ns", "path_id", "payload_type")},
        "as_unsigned": batch["payload"],
        "as_signed": batch["payload"].view(np.int64),
        "as_double": batch["payload"].view(np.float64),
    }
    # The types of payloads are those of enum rls_shim_payload.
    con.execute(
        "INSERT INTO operation_payload SELECT thread_id, start_ns, path_id,"
        " CASE payload_type WHEN 1 THEN as_unsigned::HUGEINT WHEN 2 THEN as_signed::HUGEINT END,"
        " CASE payload_type WHEN 3 THEN as_double END FROM batch"
    )
