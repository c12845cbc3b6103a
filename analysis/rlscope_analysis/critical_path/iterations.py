"""Finds the iterations of a training: on which thread, and from when to when each lasted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.errors import TraceError

if TYPE_CHECKING:
    import duckdb

PHASES, RANGE, WHOLE = "phases", "range", "whole"
"""How iterations were found: iteration.source."""
# Ranges that frameworks and people put around one iteration.
_RANGE_NAMES = "^(iteration|step|update|epoch|ProfilerStep#[0-9]+)$"

# The updates of the thread that learns most: backpropagations with no acting between them. An
# iteration lasts from the end of one to the end of the next; the first from the first phase on.
_PHASES_SQL = """
WITH phase AS (
  SELECT o.thread_id, o.start_ns, o.end_ns, p.name
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE p.source = 'auto' AND p.name IN ('simulation', 'inference', 'backpropagation')
), learner AS (
  SELECT arg_max(thread_id, (time_ns, -thread_id)) AS thread_id
  FROM (
    SELECT thread_id, sum(end_ns - start_ns) AS time_ns
    FROM phase WHERE name = 'backpropagation' GROUP BY thread_id
  )
), numbered AS (
  SELECT
    start_ns, end_ns, name,
    count(*) FILTER (WHERE name <> 'backpropagation') OVER (ORDER BY start_ns, end_ns DESC) AS acts,
    min(start_ns) OVER () AS first_ns
  FROM phase WHERE thread_id = (SELECT thread_id FROM learner)
), updated AS (
  SELECT acts, max(end_ns) AS end_ns, any_value(first_ns) AS first_ns
  FROM numbered WHERE name = 'backpropagation' GROUP BY acts
)
SELECT (SELECT thread_id FROM learner), lag(end_ns, 1, first_ns) OVER (ORDER BY end_ns), end_ns
FROM updated
QUALIFY lag(end_ns, 1, first_ns) OVER (ORDER BY end_ns) < end_ns
ORDER BY end_ns
"""
# The instances of ranges, on the thread that has most of their time, that lie in none of the same.
_RANGES_SQL = """
WITH instance AS (
  SELECT o.thread_id, o.start_ns, o.end_ns, p.name, p.depth
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE p.source <> 'auto' AND regexp_matches(p.name, $1) AND o.end_ns > o.start_ns
), outermost AS (
  FROM instance WHERE depth = (SELECT min(depth) FROM instance)
), leader AS (
  SELECT arg_max(thread_id, (time_ns, -thread_id)) AS thread_id
  FROM (SELECT thread_id, sum(end_ns - start_ns) AS time_ns FROM outermost GROUP BY thread_id)
)
SELECT thread_id, start_ns, end_ns
FROM outermost WHERE thread_id = (SELECT thread_id FROM leader)
ORDER BY start_ns, end_ns
"""
# Of the process that ran longest, the thread that leads it, over all of its life.
_WHOLE_SQL = """
WITH ran AS (
  SELECT thread_id, sum(time_ns) FILTER (WHERE state = 0) AS time_ns
  FROM thread_overlap_coded GROUP BY thread_id
), busy AS (
  SELECT arg_max(t.process_id, (coalesce(r.time_ns, 0), -t.process_id)) AS process_id
  FROM thread AS t LEFT JOIN ran AS r ON r.thread_id = t.thread_id
)
SELECT t.thread_id, t.start_ns, t.end_ns
FROM _leading_thread AS l JOIN thread AS t ON t.thread_id = l.thread_id
WHERE l.process_id = (SELECT process_id FROM busy) AND t.end_ns > t.start_ns
"""


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of one thread, in order and apart."""

    source: str
    name: str | None
    """The range that counts as one; None: source is not a range."""
    rows: list[tuple[int, int, int]]
    """thread_id, start_ns, end_ns."""


def find_iterations(connection: duckdb.DuckDBPyConnection, per: str | None = None) -> Iterations:
    """Find the iterations of an open trace; `per` names the range that counts as one.

    Raises TraceError where no range has that name.
    """
    if per is not None:
        found = _ranges(connection, f"^{_literal(per)}$")
        if not found:
            raise TraceError(
                f"no operation is called {per!r}",
                hint="what there is: rlscope-trace summarize TRACE --by operation",
            )
        return Iterations(RANGE, per, found)
    if found := connection.execute(_PHASES_SQL).fetchall():
        return Iterations(PHASES, None, found)
    if found := _ranges(connection, _RANGE_NAMES):
        return Iterations(RANGE, _range_name(connection, found[0]), found)
    return Iterations(WHOLE, None, connection.execute(_WHOLE_SQL).fetchall())


def _literal(text: str) -> str:
    """Return a regular expression of DuckDB's that matches a text."""
    return "\\Q" + text.replace("\\E", "\\E\\\\E\\Q") + "\\E"


def _ranges(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[tuple[int, int, int]]:
    rows = connection.execute(_RANGES_SQL, [pattern]).fetchall()
    apart: list[tuple[int, int, int]] = []
    for thread_id, start_ns, end_ns in rows:
        # Of those that cross, the first: an instant belongs to one iteration.
        if not apart or start_ns >= apart[-1][2]:
            apart.append((thread_id, start_ns, end_ns))
    return apart


def _range_name(connection: duckdb.DuckDBPyConnection, first: tuple[int, int, int]) -> str:
    ((name,),) = connection.execute(
        "SELECT any_value(p.name) FROM operation_coded AS o"
        " JOIN operation_path AS p ON p.path_id = o.path_id"
        " WHERE o.thread_id = $1 AND o.start_ns = $2 AND o.end_ns = $3"
        " AND regexp_matches(p.name, $4)",
        [*first, _RANGE_NAMES],
    ).fetchall()
    return str(name).partition("#")[0]
