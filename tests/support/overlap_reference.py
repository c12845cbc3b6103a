"""Two independent ways to compute the overlap of sets: plain SQL, and tick by tick.

Both take intervals [(category, start, end)] and operations [(name, start, end)] in the order of
their rows, and return an Overlap. Neither shares a line with the engine they check.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import duckdb

UNANNOTATED = "(unannotated)"

Ranges = list[tuple[str, int, int]]
Region = tuple[str, tuple[str, ...]]


@dataclass
class Overlap:
    """What there is to know: of each (operation, set) time, count, first and last, and pairs."""

    regions: dict[Region, tuple[int, int, int, int]] = field(default_factory=dict)
    transitions: dict[tuple[str, tuple[str, ...], tuple[str, ...]], int] = field(
        default_factory=dict
    )


def overlap_by_ticks(intervals: Ranges, operations: Ranges) -> Overlap:
    """Ask at every instant; fit for short times only."""
    found = Overlap()
    times = [time for _, *range_ in intervals + operations for time in range_]
    before: Region | None = None
    for tick in range(min(times, default=0), max(times, default=0)):
        now = _region_at(tick, intervals, operations)
        if now is not None:
            time, count, first, _ = found.regions.get(now, (0, 0, tick, tick))
            found.regions[now] = (time + 1, count + (now != before), first, tick + 1)
        if now is not None and before is not None and now != before and now[0] == before[0]:
            pair = (now[0], before[1], now[1])
            found.transitions[pair] = found.transitions.get(pair, 0) + 1
        before = now
    return found


def _region_at(tick: int, intervals: Ranges, operations: Ranges) -> Region | None:
    active = tuple(sorted({name for name, start, end in intervals if start <= tick < end}))
    opened = [
        (start, -end, row, name)
        for row, (name, start, end) in enumerate(operations)
        if start <= tick < end
    ]
    if opened:
        return max(opened)[-1], active
    return (UNANNOTATED, active) if active else None


# Boundaries, the elementary segments between them, what is active in each, runs of equal ones.
_SEGMENTS_SQL = f"""
CREATE OR REPLACE TEMP TABLE segment AS
WITH boundary AS (
  SELECT start_ns AS ts_ns FROM intervals UNION SELECT end_ns FROM intervals
  UNION SELECT start_ns FROM operations UNION SELECT end_ns FROM operations
),
piece AS (SELECT ts_ns AS from_ns, lead(ts_ns) OVER (ORDER BY ts_ns) AS to_ns FROM boundary),
active AS (
  SELECT from_ns, list_sort(list(DISTINCT category)) AS categories
  FROM piece JOIN intervals ON start_ns <= from_ns AND end_ns >= to_ns GROUP BY from_ns
),
opened AS (
  SELECT *, row_number() OVER (ORDER BY start_ns, end_ns DESC, id) AS place FROM operations
),
owner AS (
  SELECT from_ns, arg_max(name, place) AS operation
  FROM piece JOIN opened ON start_ns <= from_ns AND end_ns >= to_ns GROUP BY from_ns
),
state AS (
  SELECT from_ns, to_ns, coalesce(categories, []) AS categories,
    CASE WHEN operation IS NOT NULL THEN operation
      WHEN categories IS NOT NULL THEN '{UNANNOTATED}' END AS operation
  FROM piece LEFT JOIN active USING (from_ns) LEFT JOIN owner USING (from_ns)
  WHERE to_ns IS NOT NULL
)
SELECT *, lag(operation) OVER (ORDER BY from_ns) AS operation_before,
  lag(categories) OVER (ORDER BY from_ns) AS categories_before
FROM state
"""
_REGIONS_SQL = """
SELECT operation, categories, sum(to_ns - from_ns)::BIGINT,
  count(*) FILTER (WHERE operation IS DISTINCT FROM operation_before
    OR categories IS DISTINCT FROM categories_before),
  min(from_ns), max(to_ns)
FROM segment WHERE operation IS NOT NULL GROUP BY operation, categories
"""
_TRANSITIONS_SQL = """
SELECT operation, categories_before, categories, count(*)
FROM segment WHERE operation = operation_before AND categories <> categories_before
GROUP BY ALL
"""


def overlap_by_sql(intervals: Ranges, operations: Ranges) -> Overlap:
    """Compute the same with joins and aggregates."""
    connection = _connection()
    _fill(connection, "intervals", "category", intervals)
    _fill(connection, "operations", "name", operations)
    connection.execute(_SEGMENTS_SQL)
    regions = connection.execute(_REGIONS_SQL).fetchall()
    transitions = connection.execute(_TRANSITIONS_SQL).fetchall()
    return Overlap(
        {(operation, tuple(names)): tuple(rest) for operation, names, *rest in regions},
        {(operation, tuple(of), tuple(to)): count for operation, of, to, count in transitions},
    )


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    # Hundreds of small inputs: connecting, or waking threads, would take longer than the queries.
    return duckdb.connect(config={"threads": 1})


def _fill(connection: duckdb.DuckDBPyConnection, table: str, name: str, rows: Ranges) -> None:
    connection.execute(
        f"CREATE OR REPLACE TABLE {table} (id INTEGER, {name} VARCHAR, start_ns BIGINT,"
        " end_ns BIGINT)"
    )
    # One statement with lists: row by row takes longer than the rest.
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    connection.execute(
        f"INSERT INTO {table} SELECT unnest(range(?)), unnest(?::VARCHAR[]), unnest(?::BIGINT[]),"
        " unnest(?::BIGINT[])",
        [len(rows), *columns],
    )
