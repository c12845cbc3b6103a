"""The queries whose rows become slices, one per kind of record, and what their columns mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.schema.enums import code_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from rlscope_analysis.window import Window


@dataclass(frozen=True, slots=True)
class Kind:
    """A table whose rows are slices."""

    table: str
    category: str
    # SQL of the columns, all of which are cast to BIGINT.
    name: str
    keys: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...] = ()
    """Label and SQL."""
    correlation: str | None = None
    """Label of the argument that links calls with what they caused."""

    @property
    def is_gpu(self) -> bool:
        """Tell whether it is about a GPU and not about a thread or process."""
        return self.category == "gpu_activity"

    @property
    def correlation_index(self) -> int:
        """Return the place of the correlation among the arguments, -1 where there is none."""
        labels = [label for label, _ in self.arguments]
        return labels.index(self.correlation) if self.correlation else -1


THREAD_LIFETIME = Kind(
    "thread", "lifetime", "0", ("thread_id",),
    (("thread_id", "thread_id"), ("tid", "tid"), ("ended", "ended"), ("lost_ns", "lost_ns")),
)  # fmt: skip
PROCESS_LIFETIME = Kind(
    "process", "lifetime", "process_id", ("process_id",),
    (
        ("process_id", "process_id"), ("parent_process_id", "parent_process_id"), ("pid", "pid"),
        ("exit_code", "exit_code"), ("born_ns", "born_ns"),
    ),
)  # fmt: skip
THREAD_STATE = Kind(
    "thread_state_coded", "thread_state", code_of("THREAD_STATE", "state"), ("thread_id",),
    (
        ("cpu", "CASE WHEN cpu >= 0 THEN cpu END"),
        ("waker_kind", f"nullif({code_of('WAKER_KIND', 'waker_kind')}, 0)"),
        ("waker_thread_id", "waker_thread_id"),
        ("waker", "waker_thread_id"),
    ),
)  # fmt: skip
WAIT = Kind("wait_coded", "wait", code_of("WAIT_KIND", "kind"), ("thread_id",))
OPERATION = Kind("operation_coded", "operation", "path_id", ("thread_id",))
NATIVE_CALL = Kind(
    "native_call_coded", "native_call",
    f"coalesce(site_id, -1) * 8 + {code_of('LAYER', 'layer')}", ("thread_id",),
    (("depth", "depth"), ("parent_layer", f"nullif({code_of('LAYER', 'parent_layer')}, 0)")),
)  # fmt: skip
CUDA_CALL = Kind(
    "cuda_call_coded", "cuda_call",
    f"coalesce(name_id, -1) * 8 + {code_of('CUDA_CALL_KIND', 'kind')}", ("thread_id",),
    (("correlation", "correlation_id"),), correlation="correlation",
)  # fmt: skip
GPU_ACTIVITY = Kind(
    "gpu_activity_coded", "gpu_activity",
    f"coalesce(name_id, -1) * 8 + {code_of('GPU_ACTIVITY_KIND', 'kind')}",
    ("process_id", "device_id", "context_id", "stream_id"),
    (("correlation", "correlation_id"), ("bytes", "bytes"), ("graph id", "graph_id")),
    correlation="correlation",
)  # fmt: skip
ASYNC_RANGE = Kind("async_range_coded", "async_range", "name_number", ("process_id",))

_VALID = "end_ns >= start_ns"
# The place of a row in its table: DuckDB reads a table in the order in which it was written.
_STORED = "row_number() OVER ()"


def count_unreadable(connection: duckdb.DuckDBPyConnection, kind: Kind) -> int:
    """Return how many rows are no intervals: without a start or an end, or with the end first."""
    query = f"SELECT count(*) FROM {kind.table} WHERE ({_VALID}) IS NOT TRUE"  # noqa: S608
    ((count,),) = connection.execute(query).fetchall()
    return int(count)


def slices_sql(kind: Kind, window: Window | None, *, shift_ns: int, ordered: bool) -> str:
    """Return the query: start, end, name, keys, arguments; in the stored order, or `ordered`."""
    times = [f"{column} + {shift_ns}" if shift_ns else column for column in ("start_ns", "end_ns")]
    columns = [*times, kind.name, *kind.keys, *(sql for _, sql in kind.arguments)]
    chosen = ", ".join(f"CAST({sql} AS BIGINT) AS c{i}" for i, sql in enumerate(columns))
    table = _ASYNC_RANGES if kind is ASYNC_RANGE else kind.table
    if ordered and kind is not ASYNC_RANGE:
        table = f"(SELECT *, {_STORED} AS n FROM {table})"  # noqa: S608
    if ordered and kind.keys == ("thread_id",) and kind.table != "thread":
        # The order of the tracks: by process, then thread.
        owners = "(SELECT thread_id AS owned, coalesce(process_id, 0) AS owner FROM thread)"
        # Rows of threads that the trace lacks stay: they are counted where they find no track.
        table += f" LEFT JOIN {owners} ON owned = thread_id"
    query = f"SELECT {chosen} FROM {table} WHERE {_VALID}"  # noqa: S608
    if window is not None:
        query += f" AND {_overlaps(window)}"
    return query + (f" ORDER BY {_order(kind)}" if ordered else "")


def _order(kind: Kind) -> str:
    if kind.table == "thread":
        owner = "coalesce(process_id, 0), "
    else:
        owner = "owner, " if kind.keys == ("thread_id",) else ""
    # Of operations and calls with the same times, the one stored first is the outer one.
    last = "" if kind is ASYNC_RANGE else ", n"
    return f"{owner}{kind.keys[0]}, start_ns, end_ns DESC{last}"


def _overlaps(window: Window) -> str:
    """Return what is true of intervals that reach into the window; an empty one may start it."""
    return (
        f"start_ns < {window.end_ns} AND end_ns >= {window.start_ns}"
        f" AND (end_ns > {window.start_ns} OR start_ns >= {window.start_ns})"
    )


# Ranges have no codes of their own: their names are numbered in one order, here and in their query.
ASYNC_NAMES_SQL = """
SELECT
  row_number() OVER (ORDER BY name, domain) AS number, name AS known_name, domain AS known_domain
FROM (SELECT DISTINCT name, domain FROM async_range_coded)
"""
_ASYNC_RANGES = f"""(
  SELECT r.*, n.number AS name_number FROM async_range_coded AS r JOIN ({ASYNC_NAMES_SQL}) AS n
  ON n.known_name IS NOT DISTINCT FROM r.name AND n.known_domain IS NOT DISTINCT FROM r.domain
)"""  # noqa: S608 - our own text


def is_in_order(connection: duckdb.DuckDBPyConnection, kind: Kind, order: Sequence[int]) -> bool:
    """Tell whether a table is stored as its comment says: by `order` of its first key, then time.

    Of slices of one track that start together, the longer has to come first.
    """
    key = kind.keys[0]
    # Streams of a GPU lie between each other, so that equal starts say nothing there.
    same_start = "" if kind.is_gpu else "OR (start_ns = before_ns AND end_ns > before_end_ns)"
    query = f"""
    SELECT k, min(n), max(n), count(*), count(*) FILTER (
      start_ns < before_ns {same_start}
    ) FROM (
      SELECT k, n, start_ns, end_ns,
        CASE WHEN k = lag(k) OVER () THEN lag(start_ns) OVER () END AS before_ns,
        lag(end_ns) OVER () AS before_end_ns
      FROM (SELECT {key} AS k, {_STORED} AS n, start_ns, end_ns FROM {kind.table}) WHERE {_VALID}
    ) GROUP BY k ORDER BY min(n)
    """  # noqa: S608
    rows = connection.execute(query).fetchall()
    rank = {number: place for place, number in enumerate(order)}
    places = [rank.get(key, -1) for key, *_ in rows]
    whole = all(
        last - first + 1 == count and not disorder for _, first, last, count, disorder in rows
    )
    return whole and places == sorted(places)
