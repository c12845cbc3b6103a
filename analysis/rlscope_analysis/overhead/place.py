"""Tells of many instants at once what their threads were in: operation, layer, GPU, running or not.

The threads of a chunk follow each other on one axis, so that one search finds the interval that an
instant of any of them lies in. What is open at an instant is what docs/breakdown.md says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlscope_analysis import _sweep
from rlscope_analysis.errors import TraceError
from rlscope_analysis.schema.vocabulary import (
    LAYERS,
    NOT_MEASURED,
)
from rlscope_analysis.sweep.thread_plan import NEVER_NS, SWEPT_TABLES
from rlscope_analysis.sweep.thread_read import chunk_query

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import numpy.typing as npt

    from rlscope_analysis.sweep.thread_plan import Chunk

    Column: TypeAlias = npt.NDArray[Any]

CUDA_API = LAYERS.index("cuda_api")
# Calls of the CUDA API that probes recorded, which cost what other calls cost: those of CUPTI have
# a correlation.
PROBED_CUDA_SQL = """
SELECT c.thread_id, c.start_ns, c.end_ns, p.is_expensive
FROM cuda_call_coded AS c
JOIN (
  SELECT n.string_id, coalesce(bool_or(s.is_expensive), false) AS is_expensive
  FROM string AS n JOIN site AS s ON s.symbol = n.value
  WHERE s.layer = 'cuda_api' AND s.probed_ns IS NOT NULL
  GROUP BY n.string_id
) AS p ON p.string_id = c.name_id
WHERE c.correlation_id IS NULL AND c.end_ns >= c.start_ns
"""
_TABLES = {table: index for index, (table, *_) in enumerate(SWEPT_TABLES)}
# Places on an axis are 64-bit integers; no interval counts that began years before the lifetimes.
_LONGEST = 1 << 62
# Each is looked up in all of the trace; a trace of a year has one.
_MOST_PARTS = 256
_EARLIER_NS = 1 << 56
# Ids are counted from 1: a table by id is small, unless somebody else chose them.
_LARGEST_TABLE = 1 << 24


@dataclass(frozen=True, slots=True)
class Axis:
    """The times of several ids, one id behind the other: place = number * span + (time - base)."""

    ids: Column
    """Of threads or processes; the number of an id is where it stands."""
    base_ns: int
    span_ns: int

    def numbers(self, ids: Column) -> Column:
        """Return the number of each id, -1 where it is not on the axis."""
        if not len(ids):
            return np.empty(0, np.int64)
        low, high = int(self.ids.min()) - 1, int(self.ids.max()) + 1
        if high - low > _LARGEST_TABLE:
            order = np.argsort(self.ids, kind="stable")
            found = order[np.searchsorted(self.ids, ids, sorter=order).clip(max=len(order) - 1)]
            return np.where(self.ids[found] == ids, found, -1)
        table = np.full(high - low + 1, -1)
        table[self.ids - low] = np.arange(len(self.ids))
        numbers: Column = table[np.clip(ids, low, high) - low]
        return numbers

    def places(self, numbers: Column, times: Column) -> Column:
        """Return the places of times; of those that lie outside, the end next to them."""
        past_ns: Column = np.clip(times - self.base_ns, 0, self.span_ns - 1)
        return numbers * self.span_ns + past_ns

    def split(self, places: Column) -> tuple[Column, Column]:
        """Return the numbers and the times of places."""
        numbers = places // self.span_ns
        return numbers, places - numbers * self.span_ns + self.base_ns


class Intervals:
    """Intervals of an axis, in order and without overlap, and what they hold."""

    def __init__(self, starts: Column, ends: Column, values: Column | int) -> None:
        self.starts = starts
        # Where one ends as the next starts, the search finds the later edge.
        self._edges = np.stack([starts, ends], axis=1).ravel()
        self._values = np.zeros(len(self._edges) + 1, np.int64)
        self._values[1::2] = values

    def __bool__(self) -> bool:
        return len(self.starts) > 0

    def at(self, places: Column) -> Column:
        """Return what the interval at each place holds, 0: there is none; (1,) if all are alike."""
        if not self:
            return np.zeros(1, np.int64)
        return self._values[np.searchsorted(self._edges, places, side="right")]


@dataclass(frozen=True, slots=True)
class Places:
    """What every thread of a chunk was in, at every instant."""

    chunk: Chunk
    axis: Axis
    switched_in: Column
    """Where on the axis threads began to run, in their lifetimes and in the time of the chunk."""
    running: tuple[Column, Column]
    """Where on the axis threads run: from and until, in order and without overlap."""
    path: Intervals
    native: Intervals
    cuda: Intervals
    process_axis: Axis
    process_of: Column
    """By number of a thread: the number of its process."""
    busy: Intervals

    def runs(self, places: Column) -> npt.NDArray[np.bool_]:
        """Tell of each place whether its thread ran."""
        starts, ends = self.running
        if not len(starts):
            return np.zeros(len(places), np.bool_)
        at = np.searchsorted(starts, places, side="right") - 1
        # -1 is the last one, which begins after the place.
        runs: npt.NDArray[np.bool_] = (at >= 0) & (places < ends[at])
        return runs

    def gpu(self, numbers: Column, times: Column) -> Column:
        """Return the GPU state at times of the threads with these numbers, as it is coded."""
        from_ns = self.chunk.columns[5]
        if (from_ns == NEVER_NS).all():
            return np.full(1, NOT_MEASURED)
        busy: Column | int = 0
        if self.busy:
            busy = self.busy.at(self.process_axis.places(self.process_of[numbers], times))
        return np.where(times >= from_ns[numbers], busy, NOT_MEASURED)

    def layer(self, places: Column) -> Column:
        """Return the layer of the innermost known call at each place."""
        native = self.native.at(places)
        return np.where(self.cuda.at(places) > 0, CUDA_API, native) if self.cuda else native


def places_of(connection: duckdb.DuckDBPyConnection, chunk: Chunk) -> Iterator[Places]:
    """Yield the places of a chunk; in parts, where all of its threads are too long for one axis."""
    rows = {
        table: _fetched(connection, chunk, table, condition)
        for table, condition in (
            ("thread_state_coded", "state = 'running'"),
            ("operation_coded", "path_id > 0"),
            ("native_call_coded", "layer IS NOT NULL"),
            ("cuda_call_coded", "true"),
            ("gpu_activity_coded", "kind <> 'sync'"),
        )
    }
    life_ns = int(chunk.columns[2].min())
    starts = [int(columns[1].min()) for columns in rows.values() if len(columns[1])]
    base_ns = max(min([life_ns, *starts]), life_ns - _EARLIER_NS)
    span_ns = max(int(chunk.columns[3].max()) - base_ns, 0) + 2
    threads = len(chunk.columns[1])
    most = max(1, _LONGEST // span_ns)
    if threads > most * _MOST_PARTS:
        raise TraceError("its times lie too far apart for so many threads")
    for first in range(0, threads, most):
        part = chunk if threads <= most else chunk.of(slice(first, first + most))
        yield _placed(part, rows, base_ns, span_ns)


def _fetched(
    connection: duckdb.DuckDBPyConnection, chunk: Chunk, table: str, condition: str
) -> tuple[Column, ...]:
    """Return the id, start, end and value of rows that take some time."""
    query = chunk_query(chunk, _TABLES[table], [condition, "end_ns > start_ns"])
    return tuple(connection.execute(query).fetchnumpy().values())


def _placed(
    chunk: Chunk, rows: dict[str, tuple[Column, ...]], base_ns: int, span_ns: int
) -> Places:
    axis = Axis(chunk.columns[1].astype(np.int64), base_ns, span_ns)
    processes, process_of = np.unique(chunk.columns[0].astype(np.int64), return_inverse=True)
    process_axis = Axis(processes, base_ns, span_ns)
    number, start_ns, end_ns, _ = _on(axis, rows["thread_state_coded"])
    start, end = axis.places(number, start_ns), axis.places(number, end_ns)
    first_ns = np.maximum(chunk.columns[2], chunk.start_ns)
    last_ns = np.minimum(chunk.columns[3], chunk.end_ns)
    starts = start[(start_ns >= first_ns[number]) & (start_ns < last_ns[number])]
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    return Places(
        chunk=chunk,
        axis=axis,
        switched_in=starts,
        running=(start, end),
        path=_flattened(axis, rows["operation_coded"]),
        native=_flattened(axis, rows["native_call_coded"]),
        cuda=_flattened(axis, rows["cuda_call_coded"], value=1),
        process_axis=process_axis,
        process_of=process_of,
        busy=_flattened(process_axis, rows["gpu_activity_coded"], value=1),
    )


def _on(axis: Axis, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return number, start, end and value of the rows whose ids are on the axis."""
    number = axis.numbers(columns[0])
    if not len(number) or number.min() >= 0:
        return number, *columns[1:]
    is_on = number >= 0
    return tuple(column[is_on] for column in (number, *columns[1:]))


def _flattened(axis: Axis, columns: tuple[Column, ...], value: int | None = None) -> Intervals:
    """Return which row owns each interval: the one opened last that is still open."""
    number, start_ns, end_ns, values = _on(axis, columns)
    codes = values.astype(np.int32) if value is None else np.full(len(number), value, np.int32)
    owners, starts, ends = _sweep.flatten_operations(
        codes, axis.places(number, start_ns), axis.places(number, end_ns)
    )
    return Intervals(starts, ends, owners)
