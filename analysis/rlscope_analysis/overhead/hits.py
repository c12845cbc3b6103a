"""Counts the events that cost a traced thread time, where they fell: docs/overhead.md.

An event falls on the operation, the layer and the GPU state that its thread was in at that
instant, by the rules of docs/breakdown.md, if the thread ran then. Of an event with an interval of
its own (a call, an operation) a part of the cost lies inside it, the other in what surrounds it.
Works through the parts of sweep.thread_plan: memory does not grow with the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from rlscope_analysis.overhead.place import CUDA_API, PROBED_CUDA_SQL, Places, places_of
from rlscope_analysis.schema import value_of
from rlscope_analysis.schema.enums import code_of
from rlscope_analysis.schema.vocabulary import EVENTS, PYTHON_RANGES
from rlscope_analysis.sweep.thread_plan import ALWAYS_NS, NEVER_NS, make_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import numpy.typing as npt

    from rlscope_analysis.sweep.thread_plan import Chunk

    Column: TypeAlias = npt.NDArray[Any]
    Hits: TypeAlias = dict[str, Column]

_CALL, _CALL_EXPENSIVE, _RANGE, _RANGE_PYTHON, _RANGE_AUTO = (
    EVENTS.index(name) for name in ("call", "call_expensive", "range", "range_python", "range_auto")
)
# Events without an interval: all of their cost is outside. Who pays is the thread that gets the
# CPU (its running intervals are read anyway), that wakes another, that was sampled, that gave the
# GIL away.
_INSTANTS = (
    ("wakeup", "SELECT thread_id, ts_ns FROM _wakeup WHERE true", "ts_ns"),
    ("sample", "SELECT thread_id, ts_ns FROM cpu_sample_coded WHERE true", "ts_ns"),
    ("gil_release", "SELECT thread_id, start_ns FROM gil_release_coded WHERE true", "start_ns"),
)
# By waker: so each part of the trace reads its own only.
_WAKEUPS_SQL = """
CREATE OR REPLACE TEMP TABLE _wakeup AS
SELECT waker_thread_id AS thread_id, start_ns AS ts_ns
FROM thread_state_coded WHERE state = 'runnable' AND waker_thread_id IS NOT NULL
ORDER BY waker_thread_id
"""
_SCHEDULED_SQL = "SELECT EXISTS (FROM thread_state_coded WHERE state = 'running')"
# Events with an interval: what is theirs, and what is around it.
_CALL_SQL = f"""
SELECT c.thread_id, c.start_ns, {code_of("LAYER", "c.layer")}::INTEGER,
  {code_of("LAYER", "c.parent_layer")}::INTEGER,
  CASE WHEN s.is_expensive THEN {_CALL_EXPENSIVE} ELSE {_CALL} END::INTEGER
FROM native_call_coded AS c LEFT JOIN site AS s ON s.site_id = c.site_id
WHERE c.end_ns >= c.start_ns
"""  # noqa: S608 - numbers of our own
# What is around it is recognised by the instant before.
_CUDA_CALL_SQL = f"""
SELECT c.thread_id, c.start_ns, {CUDA_API}::INTEGER, 0::INTEGER,
  CASE WHEN c.is_expensive THEN {_CALL_EXPENSIVE} ELSE {_CALL} END::INTEGER
FROM ({PROBED_CUDA_SQL}) AS c WHERE true
"""  # noqa: S608 - numbers and words of our own
# Not those that were imported: they were not marked while we recorded.
_RANGE_SQL = f"""
SELECT c.thread_id, c.start_ns, c.path_id, coalesce(p.parent_path_id, 0),
  CASE
    WHEN p.source = 'auto' THEN {_RANGE_AUTO}
    WHEN t.process_id IN (
      SELECT process_id FROM coverage WHERE kind = '{PYTHON_RANGES}' AND measured
    )
    THEN {_RANGE_PYTHON}
    ELSE {_RANGE}
  END::INTEGER
FROM operation_coded AS c
JOIN operation_path AS p ON p.path_id = c.path_id
JOIN thread AS t ON t.thread_id = c.thread_id
WHERE p.source IN ('nvtx', 'auto') AND c.end_ns >= c.start_ns
"""  # noqa: S608 - numbers and words of our own
# A row takes a hundred bytes here, all columns and what is made of them together.
CHUNK_ROWS = 1 << 20
# So many keys are counted in a table rather than sorted.
_DENSE_KEYS = 1 << 16
_COLUMNS = ("thread_id", "path_id", "layer", "gpu", "event", "inside", "hits")


class _Seen(NamedTuple):
    """Events of one part: where each fell, a column each; of one value where all agree."""

    thread: Column
    path: Column
    layer: Column
    gpu: Column
    event: Column | int
    inside: int


def count(
    connection: duckdb.DuckDBPyConnection,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> Hits:
    """Return the rows of probe_hits_coded as columns, sorted by all but the last.

    start_ns, end_ns: only events in [start_ns, end_ns); None: from the first, to the last. Those of
    intervals that follow each other add up to those of the whole.
    """
    totals: list[Column] = []
    connection.execute(_WAKEUPS_SQL)
    # Who pays is a thread that runs: without scheduling, as in most imports, nobody is known to.
    ((is_scheduled,),) = connection.execute(_SCHEDULED_SQL).fetchall()
    chunks = make_plan(connection, start_ns, end_ns, chunk_rows=CHUNK_ROWS).chunks
    for chunk in chunks if is_scheduled else ():
        for places in places_of(connection, chunk):
            totals += [_counted(places, seen) for seen in _events(connection, places)]
    connection.execute("DROP TABLE temp._wakeup")
    rows = np.concatenate([np.empty((0, len(_COLUMNS)), np.int64), *totals])
    keys, at = np.unique(rows[:, :-1], axis=0, return_inverse=True)
    hits = np.zeros(len(keys), np.int64)
    np.add.at(hits, at.ravel(), rows[:, -1])
    return dict(zip(_COLUMNS, [*keys.T, hits], strict=True))


def store(connection: duckdb.DuckDBPyConnection, hits: Hits) -> None:
    """Insert the rows into probe_hits_coded."""
    names = ", ".join(hits)
    lists = ", ".join(value_of("probe_hits_coded", column) for column in hits)
    columns = [column.tolist() for column in hits.values()]
    connection.execute(f"INSERT INTO probe_hits_coded ({names}) SELECT {lists}", columns)


def _events(connection: duckdb.DuckDBPyConnection, places: Places) -> Iterator[_Seen]:
    yield _instants(places, "switch", places.switched_in)
    for event, query, at in _INSTANTS:
        thread, times = _fetched(connection, places.chunk, query, "thread_id", at)
        on_axis = np.sort(_alive(places, places.axis.numbers(thread), times)[1])
        yield _instants(places, event, on_axis[places.runs(on_axis)])
    for is_call, query in ((True, _CALL_SQL), (False, _RANGE_SQL)):
        columns = _fetched(connection, places.chunk, query, "c.thread_id", "c.start_ns")
        yield from _intervals(places, columns, is_call=is_call)
    columns = _fetched(connection, places.chunk, _CUDA_CALL_SQL, "c.thread_id", "c.start_ns")
    if len(columns[0]):
        yield from _cuda_calls(places, columns)


def _fetched(
    connection: duckdb.DuckDBPyConnection, chunk: Chunk, query: str, key: str, at: str
) -> tuple[Column, ...]:
    """Return the columns of a query, of the threads and the time of a chunk."""
    if not chunk.is_all:
        low, high = chunk.threads
        query += f" AND {key} BETWEEN {low} AND {high}"
    if chunk.start_ns != ALWAYS_NS:
        query += f" AND {at} >= {chunk.start_ns}"
    if chunk.end_ns != NEVER_NS:
        query += f" AND {at} < {chunk.end_ns}"
    return tuple(connection.execute(query).fetchnumpy().values())


def _instants(places: Places, event: str, on_axis: Column) -> _Seen:
    """Tell where events without an interval fell."""
    number, times = places.axis.split(on_axis)
    return _Seen(
        number,
        places.path.at(on_axis),
        places.layer(on_axis),
        places.gpu(number, times),
        EVENTS.index(event),
        inside=0,
    )


def _intervals(places: Places, columns: tuple[Column, ...], *, is_call: bool) -> Iterator[_Seen]:
    """Tell where both parts of events with an interval fell."""
    thread, times, own, around, event = columns
    chosen, on_axis = _alive(places, places.axis.numbers(thread), times)
    runs = places.runs(on_axis)
    chosen, on_axis = chosen[runs], on_axis[runs]
    number, times = places.axis.split(on_axis)
    gpu = places.gpu(number, times)
    for inside, value in ((0, around[chosen]), (1, own[chosen])):
        if is_call:
            layer = np.where(places.cuda.at(on_axis) > 0, CUDA_API, value)
            yield _Seen(number, places.path.at(on_axis), layer, gpu, event[chosen], inside)
        else:
            yield _Seen(number, value, places.layer(on_axis), gpu, event[chosen], inside)


def _cuda_calls(places: Places, columns: tuple[Column, ...]) -> Iterator[_Seen]:
    """Tell where both parts of probed calls of the CUDA API fell."""
    thread, times, own, _, event = columns
    chosen, on_axis = _alive(places, places.axis.numbers(thread), times)
    runs = places.runs(on_axis)
    chosen, on_axis = chosen[runs], on_axis[runs]
    number, times = places.axis.split(on_axis)
    gpu, path = places.gpu(number, times), places.path.at(on_axis)
    for inside, layer in ((0, places.layer(on_axis - 1)), (1, own[chosen])):
        yield _Seen(number, path, layer, gpu, event[chosen], inside)


def _alive(places: Places, number: Column, times: Column) -> tuple[Column, Column]:
    """Return which events lie in the lifetime of a thread of the chunk, and where on its axis."""
    _, _, first_ns, last_ns, *_ = places.chunk.columns
    first_ns = np.maximum(first_ns, places.chunk.start_ns)
    last_ns = np.minimum(last_ns, places.chunk.end_ns)
    chosen = np.flatnonzero((number >= 0) & (times >= first_ns[number]) & (times < last_ns[number]))
    return chosen, places.axis.places(number[chosen], times[chosen])


def _counted(places: Places, seen: _Seen) -> Column:
    """Return a row for each place that events fell on, with their number: columns as stored."""
    paths = int(seen.path.max(initial=0)) + 1
    key = seen.thread * paths + seen.path
    for column, values in ((seen.layer, 8), (seen.gpu, 256), (seen.event, 16), (seen.inside, 2)):
        key = key * values + column
    rest, hits = _counts(key)
    columns = [hits]
    for values in (2, 16, 256, 8, paths):
        rest, column = np.divmod(rest, values)
        columns.append(column)
    return np.stack([places.axis.ids[rest], *reversed(columns)], axis=1)


def _counts(keys: Column) -> tuple[Column, Column]:
    """Return the distinct keys and how often each occurs."""
    if int(keys.max(initial=0)) >= _DENSE_KEYS + 4 * len(keys):
        return np.unique(keys, return_counts=True)
    times = np.bincount(keys)
    found = np.flatnonzero(times)
    return found, times[found]
