"""Columns of operations into the tables of the database. 0 and "" stand for none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

Columns: TypeAlias = dict[str, NDArray[Any]]


def insert_operations(trace: TraceWriter, batch: Columns) -> None:
    """Insert thread_id, start_ns, end_ns (ns), path_id and environment_steps (-1: not known)."""
    trace.insert(
        "operation_coded",
        "SELECT thread_id, start_ns, end_ns, path_id,"
        " CASE WHEN environment_steps >= 0 THEN environment_steps END FROM batch",
        batch,
    )


def texts_column(values: Sequence[str | None]) -> NDArray[Any]:
    """Return a column of texts, "" for none: numpy's own would cut a NUL at the end."""
    column = np.empty(len(values), dtype=object)
    column[:] = [value or "" for value in values]
    return column


def insert_paths(trace: TraceWriter, batch: Columns) -> None:
    """Insert the columns of operation_path, `parent` being the path around."""
    trace.insert(
        "operation_path (path_id, parent_path_id, name, domain, category, source, depth, color,"
        " framework_name)",
        "SELECT path_id, nullif(parent, 0), name, nullif(domain, ''), nullif(category, ''), source,"
        " depth, nullif(color, 0), nullif(framework_name, '') FROM batch",
        batch,
    )


def insert_async_ranges(trace: TraceWriter, batch: Columns) -> None:
    """Insert start/end ranges in their order (ns)."""
    trace.insert(
        "async_range_coded",
        "SELECT process_id, start_ns, end_ns, name, nullif(domain, '')"
        " FROM batch ORDER BY process_id, start_ns",
        batch,
    )


def insert_marks(trace: TraceWriter, batch: Columns) -> None:
    """Insert marks in their order (ts_ns)."""
    trace.insert(
        "mark_coded",
        "SELECT thread_id, ts_ns, name, nullif(domain, ''), nullif(category, '')"
        " FROM batch ORDER BY process_id, thread_id, ts_ns",
        batch,
    )


def insert_payloads(trace: TraceWriter, batch: Columns) -> None:
    """Insert the payloads of operations, whose 64 bits are what payload_type says."""
    batch = {
        **{name: batch[name] for name in ("thread_id", "start_ns", "path_id", "payload_type")},
        "as_unsigned": batch["payload"],
        "as_signed": batch["payload"].view(np.int64),
        "as_double": batch["payload"].view(np.float64),
    }
    # The types of payloads are those of enum rls_shim_payload.
    trace.insert(
        "operation_payload",
        "SELECT thread_id, start_ns, path_id,"
        " CASE payload_type WHEN 1 THEN as_unsigned::HUGEINT WHEN 2 THEN as_signed::HUGEINT END,"
        " CASE payload_type WHEN 3 THEN as_double END FROM batch",
        batch,
    )
