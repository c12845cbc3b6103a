"""Works the critical path of an open trace out, into tables in memory: docs/critical_path.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis import _critical_path
from rlscope_analysis.critical_path import holders_sql, relations_sql
from rlscope_analysis.critical_path.iterations import find_iterations
from rlscope_analysis.errors import TraceError
from rlscope_analysis.schema import execute_at_once
from rlscope_analysis.schema.enums import code_of, word_of
from rlscope_analysis.schema.vocabulary import CAUSES
from rlscope_analysis.sweep.segments import OpenTrace, disordered_tables, make_segment_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt

    from rlscope_analysis.critical_path.iterations import Iterations

    Column = npt.NDArray[Any]
    Columns = tuple[Column, ...]

_THREADS_SQL = """
SELECT
  thread_id::INTEGER, coalesce(process_id, 0)::INTEGER, start_ns::BIGINT, end_ns::BIGINT,
  thread_id IN (SELECT thread_id FROM thread_overlap_coded WHERE state IS NOT NULL)
FROM thread WHERE end_ns >= start_ns
"""
_STATES_SQL = f"""
SELECT
  thread_id, start_ns, end_ns, {code_of("THREAD_STATE", "state")}, cpu,
  {code_of("WAKER_KIND", "waker_kind")}, coalesce(waker_thread_id, 0)
FROM thread_state_coded
"""  # noqa: S608 - words of our own
_WAITS_SQL = f"""
SELECT
  thread_id, start_ns, end_ns, {code_of("WAIT_KIND", "kind")}, {{for_holder}}
FROM wait_coded
"""  # noqa: S608 - words of our own
# What says which waits were for a lock that another thread had, and where there are any.
_FOR_HOLDER = {
    "_wait_in_driver": "SELECT 1 FROM cuda_call_coded LIMIT 1",
    "_wait_for_holder": "SELECT 1 FROM _wait_for_holder LIMIT 1",
}
_OTHER_RUNS_SQL = "SELECT cpu, start_ns, end_ns, program_id FROM other_run_coded ORDER BY ALL"
_QUOTAS_SQL = "SELECT thread_id, ts_ns FROM cpu_quota_wait_coded ORDER BY ALL"
_MESSAGES_SQL = f"""
SELECT thread_id, read_ns, sent_ns, sender_thread_id, {code_of("WAIT_KIND", "channel::WAIT_KIND")}
FROM early_message WHERE sent_ns <= read_ns ORDER BY ALL
"""  # noqa: S608 - words of our own
_IN_ORDER = " ORDER BY thread_id, start_ns, end_ns"
# Streams that wait (sync) do no work. Named by the correlation id in the edges of flow.
_ACTIVITIES_SQL = f"""
SELECT
  a.process_id::INTEGER, a.device_id::INTEGER, coalesce(a.stream_id, -1)::BIGINT,
  a.start_ns::BIGINT, a.end_ns::BIGINT,
  coalesce(l.from_thread_id, 0)::INTEGER, coalesce(l.from_ns, 0)::BIGINT,
  {code_of("GPU_ACTIVITY_KIND", "a.kind")}, coalesce(a.name_id, 0)::INTEGER
FROM gpu_activity_coded AS a
LEFT JOIN _flow_launch AS l
  ON l.process_id = a.process_id AND l.correlation_id = a.correlation_id
  AND l.to_ns = a.start_ns AND l.to_device_id = a.device_id
  AND l.to_stream_id IS NOT DISTINCT FROM a.stream_id
WHERE a.kind <> 'sync' AND a.end_ns >= a.start_ns
ORDER BY 1, 2, 3, 4, 5
"""  # noqa: S608 - words of our own
_SYNCS_SQL = """
SELECT
  to_thread_id::INTEGER, from_ns::BIGINT, to_ns::BIGINT, process_id::INTEGER,
  coalesce(from_device_id, -1)::INTEGER, coalesce(from_stream_id, -1)::BIGINT
FROM _flow_sync ORDER BY 1, 2, 3
"""
_EVENTS_SQL = """
SELECT
  process_id::INTEGER, device_id::INTEGER, to_stream_id::BIGINT, to_ns::BIGINT,
  from_stream_id::BIGINT, from_ns::BIGINT
FROM _flow_event ORDER BY process_id, device_id, to_stream_id, to_ns, from_ns, from_stream_id
"""
# A step belongs to the iteration in which it ends.
_STEPS_SQL = """
UPDATE iteration SET
  environment_steps = coalesce(s.steps, 0), evaluation_steps = coalesce(s.evaluation_steps, 0)
FROM (
  SELECT
    i.iteration_id,
    sum(o.steps) FILTER (WHERE o.end_ns <= i.end_ns AND NOT o.evaluates) AS steps,
    sum(o.steps) FILTER (WHERE o.end_ns <= i.end_ns AND o.evaluates) AS evaluation_steps
  FROM (
    SELECT
      c.end_ns, c.environment_steps AS steps,
      c.path_id IN (SELECT path_id FROM _evaluation_path) OR e.evaluation_steps = e.steps
        AS evaluates
    FROM operation_coded AS c JOIN environment_step AS e ON e.thread_id = c.thread_id
    WHERE c.environment_steps > 0 AND e.within_thread_id IS NULL
  ) AS o
  ASOF JOIN iteration AS i ON i.start_ns < o.end_ns
  GROUP BY i.iteration_id
) AS s
WHERE iteration.iteration_id = s.iteration_id
"""
# First what says that they are there: an interrupt may come in between.
_RELATIONS = (
    ("TABLE", "critical_path_coded"), ("VIEW", "critical_path"), ("VIEW", "_training_span"),
    ("VIEW", "_steady_iteration"),
    ("VIEW", "_phase"), ("TABLE", "iteration"), ("TABLE", "_wait_for_holder"),
)  # fmt: skip
# Causes outside the life of a thread.
_OUTSIDE = ("unknown", "before_trace")
# So many columns of an activity are what the walk needs.
_WALKED = 7
_NULL_IS_0 = ("thread_id", "by_thread_id", "by_program_id", "waiter_thread_id")
# A segment of a thread lies in one piece of the path. Of the other pieces there is none: those on a
# GPU, and those outside the life of their thread.
_STORE_SQL = f"""
INSERT INTO critical_path_coded
SELECT
  p.iteration_id, s.start_ns, s.end_ns, s.thread_id, NULL, NULL, NULL, NULL, s.path_id,
  {word_of("LAYER", "s.layer")}, p.cause,
  p.by_thread_id, p.by_program_id, p.wait, p.waiter_thread_id
FROM _path_segment AS s ASOF JOIN (FROM _path_piece WHERE cause NOT IN {_OUTSIDE}) AS p
  ON p.thread_id = s.thread_id AND p.start_ns <= s.start_ns
UNION ALL
SELECT
  p.iteration_id, p.start_ns, p.end_ns, p.thread_id, NULL, NULL, NULL, NULL, 0, NULL, p.cause,
  p.by_thread_id, p.by_program_id, p.wait, p.waiter_thread_id
FROM _path_piece AS p WHERE p.thread_id IS NOT NULL AND p.cause IN {_OUTSIDE}
UNION ALL
SELECT
  p.iteration_id, p.start_ns, p.end_ns, NULL, a.device_id, nullif(a.stream_id, -1), a.kind,
  nullif(a.name_id, 0), coalesce(o.path_id, 0), NULL, p.cause, NULL, NULL, p.wait,
  p.waiter_thread_id
FROM _path_piece AS p
JOIN _path_activity AS a ON a.number = p.activity
ASOF LEFT JOIN _operation_change AS o
  ON o.thread_id = a.launch_thread_id AND o.ts_ns <= a.launch_ns
WHERE p.thread_id IS NULL
ORDER BY 1, 2
"""  # noqa: S608 - words of our own


def add_critical_path(trace: OpenTrace, *, per: str | None = None) -> None:
    """Work out the tables iteration and critical_path of an open trace, in its database in memory.

    per: the range that counts as an iteration. Raises TraceError where none is called so, and where
    the trace is not as its schema promises.
    """
    connection = trace.connection
    found = find_iterations(connection, per)
    try:
        execute_at_once(connection, [holders_sql(), relations_sql()])
        pieces, activities = _walk(connection, found)
        _store_iterations(connection, found)
        _store_pieces(trace, pieces, activities)
    except BaseException as error:
        # What is there in part would be taken for all there is.
        for kind, name in _RELATIONS:
            connection.execute(f"DROP {kind} IF EXISTS {name}")
        if isinstance(error, _critical_path.PathOrderError):
            raise TraceError(
                f"the critical path cannot be worked out: rows of {error} are not in order",
                hint="rlscope-trace sql TRACE 'FROM overlap_fault'",
            ) from error
        raise


def _store_iterations(connection: duckdb.DuckDBPyConnection, found: Iterations) -> None:
    if not found.rows:
        return
    names = ("thread_id", "start_ns", "end_ns")
    _make_table(
        connection, "_found", names, dict(zip(names, _iteration_columns(found), strict=True))
    )  # fmt: skip
    connection.execute(
        "INSERT INTO iteration"
        " SELECT number, t.process_id, f.thread_id, f.start_ns, f.end_ns, $1, $2,"
        " number = 1 AND $3, NULL, NULL"
        " FROM (SELECT *, row_number() OVER (ORDER BY start_ns) AS number FROM _found) AS f"
        " JOIN thread AS t ON t.thread_id = f.thread_id ORDER BY number",
        [found.source, found.name, found.has_first],
    )
    connection.execute("DROP TABLE _found")
    connection.execute(_STEPS_SQL)


def _walk(
    connection: duckdb.DuckDBPyConnection, found: Iterations
) -> tuple[dict[str, Column], Columns]:
    """Return the pieces of the path, and the GPU activities that they are numbered by."""
    disordered = disordered_tables(connection)
    activities = _columns(connection, _ACTIVITIES_SQL)
    held = [view for view, exists in _FOR_HOLDER.items() if connection.execute(exists).fetchone()]
    for_holder = " OR ".join(
        f"(thread_id, start_ns) IN (SELECT thread_id, start_ns FROM {view})"  # noqa: S608
        for view in held
    )
    waits = _WAITS_SQL.format(for_holder=for_holder or "false")
    # What is joined comes in another order, whatever it is joined with.
    waits += _IN_ORDER * (bool(held) or "wait_coded" in disordered)
    pieces = _critical_path.walk_back(
        threads=_columns(connection, _THREADS_SQL),
        states=_columns(connection, _STATES_SQL + _IN_ORDER * ("thread_state_coded" in disordered)),
        waits=_columns(connection, waits),
        other_runs=_columns(connection, _OTHER_RUNS_SQL),
        quotas=_columns(connection, _QUOTAS_SQL),
        messages=_columns(connection, _MESSAGES_SQL),
        activities=activities[:_WALKED],
        syncs=_columns(connection, _SYNCS_SQL),
        events=_columns(connection, _EVENTS_SQL),
        iterations=_iteration_columns(found),
    )
    return pieces, activities


def _columns(connection: duckdb.DuckDBPyConnection, query: str) -> Columns:
    fetched = connection.execute(query).fetchnumpy().values()
    return tuple(np.ascontiguousarray(np.ma.getdata(column)) for column in fetched)


def _iteration_columns(found: Iterations) -> Columns:
    rows = np.array(found.rows, dtype=np.int64).reshape(-1, 3)
    return (
        rows[:, 0].astype(np.int32), np.ascontiguousarray(rows[:, 1]),
        np.ascontiguousarray(rows[:, 2]),
    )  # fmt: skip


def _store_pieces(trace: OpenTrace, pieces: dict[str, Column], activities: Columns) -> None:
    """Split the pieces by operation and layer, and store them with those on GPUs."""
    connection = trace.connection
    outside = [CAUSES.index(cause) for cause in _OUTSIDE]
    on_thread = np.flatnonzero((pieces["thread_id"] != 0) & ~np.isin(pieces["cause"], outside))
    order = on_thread[np.lexsort((pieces["start_ns"][on_thread], pieces["thread_id"][on_thread]))]
    only: Any = tuple(
        np.ascontiguousarray(pieces[name][order]) for name in ("thread_id", "start_ns", "end_ns")
    )
    _make_table(
        connection, "_path_piece",
        [
            "iteration_id + 1 AS iteration_id", "start_ns", "end_ns", "activity",
            f"{word_of('CAUSE', 'cause')} AS cause", f"{word_of('WAIT_KIND', 'wait')} AS wait",
            *(f"nullif({name}, 0) AS {name}" for name in _NULL_IS_0),
        ],
        {"iteration_id": pieces["iteration"], **pieces},
    )  # fmt: skip
    names = (
        "process_id", "device_id", "stream_id", "start_ns", "end_ns", "launch_thread_id",
        "launch_ns", "kind", "name_id",
    )  # fmt: skip
    columns = dict(zip(names, activities, strict=True))
    numbers: Column = np.arange(len(activities[0]), dtype=np.int64)
    wanted = np.unique(pieces["activity"][pieces["activity"] >= 0])
    _make_table(
        connection, "_path_activity",
        [
            "number", "device_id", "stream_id", "launch_thread_id", "launch_ns",
            f"{word_of('GPU_ACTIVITY_KIND', 'kind')} AS kind", "name_id",
        ],
        {name: column[wanted] for name, column in {"number": numbers, **columns}.items()},
    )  # fmt: skip
    make_segment_table(trace, "_path_segment", only)
    connection.execute(_STORE_SQL)
    connection.execute(
        "DROP TABLE _path_segment; DROP TABLE _path_piece; DROP TABLE _path_activity"
    )


def _make_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    shown: Sequence[str],
    columns: dict[str, Column],
) -> None:
    connection.register("_columns", columns)
    try:
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {', '.join(shown)} FROM _columns"  # noqa: S608
        )
    finally:
        connection.unregister("_columns")
