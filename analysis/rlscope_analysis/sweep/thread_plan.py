"""Cuts a trace into parts that can be swept one by one, in memory that does not grow with it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlscope_analysis import _sweep
from rlscope_analysis.errors import TraceError
from rlscope_analysis.schema.vocabulary import LAYERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import numpy.typing as npt

    Column: TypeAlias = npt.NDArray[Any]

# What the sweep reads, in its order: table, whose rows, the column with the value, and its type.
SWEPT_TABLES = (
    ("thread_state_coded", "thread_id", "state", "THREAD_STATE"),
    ("operation_coded", "thread_id", "path_id", "INTEGER"),
    ("native_call_coded", "thread_id", "layer", "LAYER"),
    ("wait_coded", "thread_id", "kind", "WAIT_KIND"),
    ("cuda_call_coded", "thread_id", "kind", "CUDA_CALL_KIND"),
    ("gpu_activity_coded", "process_id", "kind", "GPU_ACTIVITY_KIND"),
    ("cpu_sample_coded", "thread_id", "layer", "LAYER"),
)
# Instants, read as intervals that take no time.
_INSTANTS = {
    "cpu_sample_coded": "(SELECT thread_id, ts_ns AS start_ns, ts_ns AS end_ns, layer"
    " FROM cpu_sample_coded)"
}
# Rows of a chunk: enough that the queries of one (about 10 ms) cost little beside them.
CHUNK_ROWS = 5 << 19
# GPU activity of a process is held while its threads are swept: 48 bytes each, if none overlap.
_CHUNK_ACTIVITIES = 1 << 19
# DuckDB reads tables in groups of 122,880 rows: smaller pieces of a thread read groups twice.
_THREAD_ROWS = 1 << 17

ALWAYS_NS = int(np.iinfo(np.int64).min)
NEVER_NS = int(np.iinfo(np.int64).max)
# The processes that had run before their GPU activity was recorded, and since when it was. Others
# had it from before their first GPU work on.
LATE_GPU_SQL = """
SELECT process_id, min(ts_ns) AS from_ns
FROM gpu_status
WHERE state = 'on' AND ts_ns IS NOT NULL
GROUP BY process_id
HAVING coalesce(arg_min(is_late, ts_ns), false)
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Threads, in the order of the tables, and the interval to sweep of them."""

    columns: tuple[Column, ...]
    """process_id, thread_id, start_ns, end_ns, state_is_measured, gpu_from_ns"""
    start_ns: int = ALWAYS_NS
    end_ns: int = NEVER_NS
    is_all: bool = False
    """No thread of the trace is missing: rows need no filter by thread."""
    probed_ns: tuple[int, ...] = (ALWAYS_NS,) * 8
    """By layer: since when all of its calls were recorded."""

    @property
    def processes(self) -> tuple[int, int]:
        """Return the smallest and the largest process_id."""
        return int(self.columns[0].min()), int(self.columns[0].max())

    @property
    def threads(self) -> tuple[int, int]:
        """Return the smallest and the largest thread_id."""
        return int(self.columns[1].min()), int(self.columns[1].max())

    def by_process(self) -> Iterator[Chunk]:
        """Yield the threads of one process after the other."""
        for first, past in _runs(self.columns[0]):
            yield self.of(slice(first, past))

    def of(self, threads: slice) -> Chunk:
        """Return some threads of this chunk."""
        columns = tuple(column[threads] for column in self.columns)
        is_all = self.is_all and len(columns[0]) == len(self.columns[0])
        return replace(self, columns=columns, is_all=is_all)

    def by_thread(self) -> Iterator[Chunk]:
        """Yield one thread after the other."""
        for place in range(len(self.columns[1])):
            yield self.of(slice(place, place + 1))


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a trace that make up the whole, each to be swept once."""

    chunks: list[Chunk]
    rows: int
    strays: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Rows that no sweep sees, by table and fault."""


def make_plan(
    connection: duckdb.DuckDBPyConnection,
    start_ns: int | None,
    end_ns: int | None,
    *,
    chunk_rows: int | None = None,
) -> Plan:
    """Cut the trace: small processes together, large ones into intervals.

    chunk_rows: how many rows a chunk has at most, about (None: CHUNK_ROWS). What is found does not
    depend on it.
    """
    most = CHUNK_ROWS if chunk_rows is None else chunk_rows
    strays: Counter[tuple[str, str]] = Counter()
    whole = Chunk(
        _threads(connection, strays),
        ALWAYS_NS if start_ns is None else start_ns,
        NEVER_NS if end_ns is None else end_ns,
        is_all=True,
        probed_ns=_probed_since(connection),
    )
    rows = _row_counts(connection, whole, strays)
    thread_rows = sum(rows.by_thread.values(), Counter[int]())
    chunks: list[Chunk] = []
    first, gathered = 0, 0
    for start, past in _runs(whole.columns[0]):
        process_id = int(whole.columns[0][start])
        threads = [int(thread_id) for thread_id in whole.columns[1][start:past]]
        activities = rows.activities[process_id]
        count = activities + sum(thread_rows[thread] for thread in threads)
        is_large = count > most or activities > 2 * _CHUNK_ACTIVITIES
        if first < start and (is_large or gathered + count > most):
            chunks.append(whole.of(slice(first, start)))
            first, gathered = start, 0
        gathered += count
        if is_large:
            chunks += _cut(connection, whole.of(slice(start, past)), rows, most)
            first, gathered = past, 0
    if first < len(whole.columns[0]):
        chunks.append(whole.of(slice(first, None)))
    return Plan(chunks, thread_rows.total() + rows.activities.total(), strays)


def _probed_since(connection: duckdb.DuckDBPyConnection) -> tuple[int, ...]:
    """Return by layer since when all its functions that were found had their probes."""
    found = dict(
        connection.execute("SELECT layer, max(probed_ns) FROM site GROUP BY layer").fetchall()
    )
    # The sweep has three bits for a layer.
    since = [found.get(layer) for layer in LAYERS] + [None] * (8 - len(LAYERS))
    return tuple(ALWAYS_NS if at is None else at for at in since)


def in_window(chunk: Chunk) -> list[str]:
    """Return SQL conditions for the rows that may matter to the time of a chunk.

    A row that ends at its start may be an empty one that starts there: it may be an entry.
    """
    conditions = []
    if chunk.end_ns != NEVER_NS:
        conditions.append(f"start_ns < {chunk.end_ns}")
    if chunk.start_ns != ALWAYS_NS:
        conditions.append(f"end_ns >= {chunk.start_ns}")
    return conditions


def intervals_of(table: str) -> str:
    """Return what stands after FROM for the rows of a table with their start_ns and end_ns."""
    return _INSTANTS.get(table, table)


def where(conditions: list[str]) -> str:
    """Return the clause; none, if there is no condition."""
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


@dataclass(slots=True)
class _RowCounts:
    by_thread: dict[str, Counter[int]] = field(default_factory=dict)
    activities: Counter[int] = field(default_factory=Counter)


def _threads(
    connection: duckdb.DuckDBPyConnection, strays: Counter[tuple[str, str]]
) -> tuple[Column, ...]:
    rows = connection.execute(
        "SELECT coalesce(process_id, 0), thread_id, start_ns, end_ns FROM thread"
        " WHERE thread_id IS NOT NULL ORDER BY ALL"
    ).fetchall()
    living = [row for row in rows if row[2] is not None and row[3] is not None]
    strays["thread", "no_lifetime"] += len(rows) - len(living)
    thread_ids = Counter(row[1] for row in rows)
    for thread_id, times in thread_ids.most_common(1):
        if times > 1:
            raise TraceError(
                f"thread_id {thread_id} stands {times} times in table thread",
                hint="a thread_id is one life of one thread: write the trace again",
            )
    states = _measured(connection, "thread_state")
    gpu = _measured(connection, "gpu_activity")
    late = dict(connection.execute(LATE_GPU_SQL).fetchall())
    types = (np.int32, np.int32, np.int64, np.int64)
    return (
        *(np.array([row[i] for row in living], dtype) for i, dtype in enumerate(types)),
        np.array([states.get(row[0], states.get(None, False)) for row in living], np.bool_),
        np.array(
            [
                late.get(row[0], ALWAYS_NS) if gpu.get(row[0], gpu.get(None, False)) else NEVER_NS
                for row in living
            ],
            np.int64,
        ),
    )


def _measured(connection: duckdb.DuckDBPyConnection, kind: str) -> dict[int | None, bool]:
    """Return by process, and by None for every other one, whether a kind of record was measured."""
    return dict(
        connection.execute(
            "SELECT process_id, coalesce(bool_or(measured), false) FROM coverage"
            " WHERE kind = ? GROUP BY process_id",
            [kind],
        ).fetchall()
    )


def _row_counts(
    connection: duckdb.DuckDBPyConnection, whole: Chunk, strays: Counter[tuple[str, str]]
) -> _RowCounts:
    counts = _RowCounts()
    window = where(in_window(whole))
    for table, key, _, _ in SWEPT_TABLES:
        found, nulls = _count_ids(connection, table, key, window)
        if nulls:
            raise TraceError(
                f"{nulls:,} rows of {table} have no {key}",
                hint="write the trace again: each row belongs to one",
            )
        known = set(whole.columns[0 if key == "process_id" else 1].tolist())
        strays[table, "unknown_thread"] += sum(n for of, n in found.items() if of not in known)
        counted = Counter({of: n for of, n in found.items() if of in known})
        if key == "process_id":
            counts.activities = counted
        else:
            counts.by_thread[table] = counted
    return counts


def _count_ids(
    connection: duckdb.DuckDBPyConnection, table: str, key: str, window: str
) -> tuple[dict[int, int], int]:
    query = f"SELECT {key}::INTEGER FROM {intervals_of(table)}{window}"  # noqa: S608
    try:
        return _sweep.count_ids(connection.sql(query).__arrow_c_stream__(), table)
    except _sweep.ColumnError as error:
        raise TraceError(
            str(error), hint="rlscope-trace sql TRACE .schema shows the tables it has"
        ) from error


def _cut(
    connection: duckdb.DuckDBPyConnection, chunk: Chunk, rows: _RowCounts, most: int
) -> list[Chunk]:
    """Cut the only process of a chunk where its largest run of rows has equal parts.

    most: rows of a part, unless that makes pieces of threads too small.
    """
    process_id = int(chunk.columns[0][0])
    threads = [int(thread_id) for thread_id in chunk.columns[1]]
    activities = rows.activities[process_id]
    runs = [
        (count[thread], table, "thread_id", thread)
        for table, count in rows.by_thread.items()
        for thread in threads
        if count[thread]
    ]
    total = activities + sum(run[0] for run in runs)
    busy_threads = max(1, len({run[3] for run in runs}))
    pieces = min(-(-total // most), max(1, total // (busy_threads * _THREAD_ROWS)))
    longest = max([(activities, "gpu_activity_coded", "process_id", process_id), *runs])
    if activities > pieces * _CHUNK_ACTIVITIES:
        pieces = -(-activities // _CHUNK_ACTIVITIES)
        longest = (activities, "gpu_activity_coded", "process_id", process_id)
    if pieces < 2:
        return [chunk]
    count, table, key, value = longest
    conditions = where([f"{key} = {value}", *in_window(chunk)])
    starts = connection.execute(
        "SELECT DISTINCT start_ns FROM (SELECT start_ns, row_number() OVER () AS number"  # noqa: S608
        f" FROM {intervals_of(table)}{conditions})"
        f" WHERE number % {-(-count // pieces)} = 0 ORDER BY ALL"
    ).fetchall()
    cuts = [at for (at,) in starts if chunk.start_ns < at < chunk.end_ns]
    bounds = [chunk.start_ns, *cuts, chunk.end_ns]
    return [replace(chunk, start_ns=start, end_ns=end) for start, end in pairwise(bounds)]


def _runs(ids: Column) -> Iterator[tuple[int, int]]:
    """Yield where each run of equal ids begins, and one past its end."""
    bounds = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
    for first, past in pairwise(bounds):
        if first < past:
            yield first, past
