"""GPU records into the tables of the database, sorted: they come in the order CUPTI gave them.

They wait in temporary tables, which DuckDB keeps on the disk where they do not fit into memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.enums import word_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

    Columns = dict[str, NDArray[Any]]

_STAGED = {
    "cuda_call_coded": (
        "process_id INTEGER, thread_id INTEGER, start_ns BIGINT, end_ns BIGINT, kind UTINYINT,"
        " name_id INTEGER, correlation_id UINTEGER"
    ),
    "gpu_activity_coded": (
        "process_id INTEGER, device_id UINTEGER, context_id UINTEGER, stream_id UINTEGER,"
        " start_ns BIGINT, end_ns BIGINT, kind UTINYINT, name_id INTEGER,"
        " correlation_id UINTEGER, graph_id UINTEGER, bytes UBIGINT, peer_device_id UINTEGER"
    ),
}
_SORTED = {  # with words of our own
    "cuda_call_coded": (
        f"SELECT thread_id, start_ns, end_ns, {word_of('CUDA_CALL_KIND', 'kind')}, name_id,"  # noqa: S608
        " nullif(correlation_id, 0)"
        " FROM {staged} ORDER BY process_id, thread_id, start_ns, end_ns DESC"
    ),
    "gpu_activity_coded": (
        "SELECT process_id, if(device_id > 2147483647, NULL, device_id),"  # noqa: S608
        " nullif(context_id, 4294967295), nullif(stream_id, 4294967295), start_ns, end_ns,"
        f" {word_of('GPU_ACTIVITY_KIND', 'kind')} AS word,"
        " nullif(name_id, 0), nullif(correlation_id, 0), nullif(graph_id, 0),"
        " if(word IN ('memcpy', 'memset'), least(bytes, 9223372036854775807), NULL),"
        " if(peer_device_id > 2147483647, NULL, peer_device_id)"
        " FROM {staged} ORDER BY process_id, start_ns, end_ns, device_id, stream_id"
    ),
}
_OVERHEAD_KINDS = (
    "other", "buffer_flush", "instrumentation", "resource", "runtime_module_load",
    "lazy_function_load", "command_buffer_full", "buffer_request", "uvm_init",
)  # fmt: skip
_MEMORY_KINDS = (
    "other", "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static",
)  # fmt: skip


class Staging:
    """Rows on their way into a table that is sorted."""

    def __init__(self, trace: TraceWriter, table: str) -> None:
        """`table`: cuda_call_coded or gpu_activity_coded."""
        self._trace = trace
        self._table = table
        self._staged = f"temp.staged_{table}"
        trace.con.execute(f"CREATE TEMP TABLE staged_{table} ({_STAGED[table]})")

    def add(self, batch: Columns) -> None:
        """Add rows: columns named as in the table, with process_id; 0 and ~0 stand for none."""
        names = [column.split()[0] for column in _STAGED[self._table].split(", ")]
        if len(batch[names[0]]):
            selection = ", ".join(names)
            # Names of our own; DuckDB finds the columns by the name of the parameter.
            self._trace.con.execute(f"INSERT INTO {self._staged} SELECT {selection} FROM batch")  # noqa: S608

    def store(self) -> None:
        """Move the rows into the table, in its order."""
        self._trace.insert(self._table, _SORTED[self._table].format(staged=self._staged))
        self._trace.con.execute(f"DROP TABLE {self._staged}")


def insert_overheads(trace: TraceWriter, batch: Columns) -> None:
    """Insert process_id, thread_id (0: none), start_ns, end_ns and CUPTI's kind."""
    trace.insert(
        "gpu_overhead",
        "SELECT process_id, nullif(thread_id, 0), start_ns, end_ns,"
        " coalesce(list_extract(?, what::INTEGER + 1), 'other') FROM batch",
        batch,
        [list(_OVERHEAD_KINDS)],
    )


def insert_memory(trace: TraceWriter, batch: Columns) -> None:
    """Insert what programs allocated and freed, with CUPTI's kinds of memory."""
    trace.insert(
        "gpu_memory",
        "SELECT process_id, if(device > 2147483647, NULL, device),"
        " nullif(context, 4294967295), ts_ns, if(is_release <> 0, 'free', 'allocate'),"
        " coalesce(list_extract(?, memory_kind::INTEGER + 1), 'other'),"
        " least(bytes, 9223372036854775807), address, nullif(correlation, 0) FROM batch",
        batch,
        [list(_MEMORY_KINDS)],
    )
