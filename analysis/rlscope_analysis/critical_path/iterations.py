"""Finds the iterations of a training: on which thread, and from when to when each lasted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING

from rlscope_analysis.errors import UnknownRangeError
from rlscope_analysis.schema.vocabulary import ITERATION_NAMES
from rlscope_analysis.window import asked_window, origin_ns

if TYPE_CHECKING:
    import duckdb

PHASES, RANGE, WHOLE = "phases", "range", "whole"
"""How iterations were found: iteration.source."""
# Ranges that frameworks and people put around one iteration; profilers number theirs.
_RANGE_NAMES = f"(?i)^({'|'.join((*ITERATION_NAMES, 'ProfilerStep'))})$"
# So many make a name that counts as one: of an epoch around all steps there is one.
_ENOUGH = 3

_LEARNING = resources.files(__package__).joinpath("learning.sql").read_text(encoding="utf-8")
_LEAD = "(SELECT thread_id FROM learner ORDER BY most DESC LIMIT 1)"
_PHASES_SQL = f"{_LEARNING} FROM spaced WHERE thread_id = {_LEAD} ORDER BY end_ns"
_CYCLES_SQL = f"""
{_LEARNING}
SELECT thread_id, start_ns, end_ns FROM cycle WHERE thread_id = {_LEAD} ORDER BY start_ns
"""  # noqa: S608 - statements of our own
_UPDATES_SQL = f"""
{_LEARNING}
SELECT l.process_id, CASE WHEN count(*) > 1 THEN count(*) ELSE any_value(c.times) END AS times
FROM learner AS l
JOIN spaced AS s ON s.thread_id = l.thread_id
JOIN (SELECT thread_id, count(*) AS times FROM cycle GROUP BY thread_id) AS c
  ON c.thread_id = l.thread_id
GROUP BY l.process_id ORDER BY any_value(l.most) DESC
"""  # noqa: S608 - statements of our own
# The instances of ranges by name and thread that lie in none of the same; of those that cross, the
# first. Chosen is what has enough of them and most time. $1: a regular expression, $2: a name; one
# of them is NULL.
_RANGES_SQL = f"""
WITH instance AS (
  SELECT
    o.thread_id, o.start_ns, o.end_ns,
    CASE WHEN $2 IS NULL THEN regexp_replace(p.name, '#[0-9]+$', '') ELSE p.name END AS name
  FROM operation_coded AS o JOIN operation_path AS p ON p.path_id = o.path_id
  WHERE o.end_ns > o.start_ns AND CASE
    WHEN $2 IS NOT NULL THEN p.name = $2
    ELSE p.source <> 'auto' AND regexp_matches(regexp_replace(p.name, '#[0-9]+$', ''), $1)
  END
), outermost AS (
  FROM instance QUALIFY start_ns >= coalesce(max(end_ns) OVER (
    PARTITION BY thread_id, name ORDER BY start_ns, end_ns DESC
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ), start_ns)
), chosen AS (
  SELECT thread_id, name FROM outermost GROUP BY ALL
  ORDER BY count(*) >= {_ENOUGH} DESC, sum(end_ns - start_ns) DESC, name, thread_id LIMIT 1
)
SELECT o.thread_id, o.start_ns, o.end_ns, o.name
FROM outermost AS o JOIN chosen AS c ON c.thread_id = o.thread_id AND c.name = o.name
ORDER BY o.start_ns
"""  # noqa: S608 - a number of our own
# Of the process that ran longest, or of the first above it that ran a tenth as long, the thread
# that leads it, over all of its life: one that loads data works for the one that asks for it, and a
# shell only starts others. Where several of its children run as long, one that mostly waits for
# messages leads them, however little it runs. One that lived much shorter than another of its
# process has not seen the whole run: then it is the other. A program that we launched waits at a
# pipe until the recorder is there: that is not its own time.
_WHOLE_SQL = """
WITH RECURSIVE released AS (
  SELECT t.thread_id, min(w.end_ns) AS ts_ns
  FROM thread AS t
  JOIN process AS p ON p.process_id = t.process_id AND p.parent_process_id IS NULL
  JOIN wait_coded AS w
    ON w.thread_id = t.thread_id AND w.kind = 'pipe' AND w.start_ns <= t.start_ns + 10000000
  WHERE EXISTS (FROM meta WHERE key = 'mode' AND value = 'launch')
  GROUP BY t.thread_id
), ran AS (
  SELECT thread_id, sum(time_ns) FILTER (WHERE state = 'running') AS time_ns
  FROM thread_overlap_coded GROUP BY thread_id
), used AS (
  SELECT t.process_id, coalesce(sum(r.time_ns), 0) AS time_ns
  FROM thread AS t LEFT JOIN ran AS r ON r.thread_id = t.thread_id
  GROUP BY t.process_id
), crowd AS (
  SELECT p.parent_process_id AS process_id
  FROM used AS u JOIN process AS p ON p.process_id = u.process_id
  WHERE u.time_ns > 0 AND u.time_ns >= 0.5 * (SELECT max(time_ns) FROM used)
  GROUP BY p.parent_process_id HAVING count(*) > 1
), caller AS (
  SELECT DISTINCT t.process_id
  FROM thread AS t
  JOIN crowd AS c ON c.process_id = t.process_id
  JOIN wait_coded AS w ON w.thread_id = t.thread_id AND w.kind IN ('pipe', 'socket', 'poll')
  GROUP BY t.process_id, t.thread_id, t.start_ns, t.end_ns
  HAVING sum(w.end_ns - w.start_ns) > 0.5 * (t.end_ns - t.start_ns)
), above AS (
  SELECT * FROM (
    SELECT process_id, time_ns, time_ns AS most_ns, 0 AS height
    FROM used ORDER BY time_ns DESC, process_id LIMIT 1
  )
  UNION ALL
  SELECT p.parent_process_id, u.time_ns, a.most_ns, a.height + 1
  FROM above AS a
  JOIN process AS p ON p.process_id = a.process_id
  JOIN used AS u ON u.process_id = p.parent_process_id
  -- A damaged trace may have a circle of parents.
  WHERE a.height < 8
), busy AS (
  SELECT process_id FROM above
  WHERE height = 0 OR (most_ns > 0 AND time_ns >= 0.1 * most_ns)
    OR (height = 1 AND process_id IN (FROM caller))
  ORDER BY height = 0, height LIMIT 1
), own AS (
  SELECT
    t.thread_id, coalesce(r.ts_ns, t.start_ns) AS start_ns, t.end_ns,
    t.thread_id = l.thread_id AS leads
  FROM busy AS b
  JOIN _leading_thread AS l ON l.process_id IS NOT DISTINCT FROM b.process_id
  JOIN thread AS t ON t.process_id IS NOT DISTINCT FROM b.process_id
  LEFT JOIN released AS r ON r.thread_id = t.thread_id
  WHERE t.end_ns > coalesce(r.ts_ns, t.start_ns)
)
SELECT thread_id, start_ns, end_ns FROM own
ORDER BY
  leads AND end_ns - start_ns >= 0.6 * max(end_ns - start_ns) OVER () DESC,
  end_ns - start_ns DESC, thread_id
LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of one thread, in order and apart."""

    source: str
    name: str | None
    """The range that counts as one; None: source is not a range."""
    rows: list[tuple[int, int, int]]
    """thread_id, start_ns, end_ns."""
    has_first: bool = True
    """Whether the first one is the first of all."""


def find_iterations(connection: duckdb.DuckDBPyConnection, per: str | None = None) -> Iterations:
    """Find the iterations of an open trace; `per` names the range that counts as one.

    In a window those that it cuts are left out, as long as there are others. Raises
    UnknownRangeError where no range has that name.
    """
    found = _found(connection, per)
    window = asked_window(connection)
    if window is None:
        return found
    first_ns, rows = origin_ns(connection), found.rows
    if window.from_ns is not None:
        # Of phases the first one lasts from where the window happens to meet the first phase.
        cut = found.source == PHASES or bool(rows and rows[0][1] <= first_ns + window.from_ns)
        rows = rows[1:] if cut else rows
    if window.to_ns is not None and rows and rows[-1][2] >= first_ns + window.to_ns:
        rows = rows[:-1]
    return replace(found, rows=rows or found.rows, has_first=window.from_ns is None)


def _found(connection: duckdb.DuckDBPyConnection, per: str | None) -> Iterations:
    if per is not None:
        found = _ranges(connection, None, per)
        if not found.rows:
            raise UnknownRangeError(per)
        return found
    phases: list[tuple[int, int, int]] = connection.execute(_PHASES_SQL).fetchall()
    if len(phases) > 1:
        return Iterations(PHASES, None, phases)
    ranges = _ranges(connection, _RANGE_NAMES, None)
    if ranges.rows:
        return ranges
    if phases:
        updates = connection.execute(_CYCLES_SQL).fetchall()
        return Iterations(PHASES, None, _from_end_to_end(updates))
    return Iterations(WHOLE, None, connection.execute(_WHOLE_SQL).fetchall())


def updates_by_process(connection: duckdb.DuckDBPyConnection) -> dict[int | None, int]:
    """Return how many updates each process that learns has, the one that learns most first."""
    return dict(connection.execute(_UPDATES_SQL).fetchall())


def _from_end_to_end(updates: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return an iteration for each update: from the end of the one before to its own."""
    rows: list[tuple[int, int, int]] = []
    for thread_id, start_ns, end_ns in updates:
        begin_ns = rows[-1][2] if rows else start_ns
        if end_ns > begin_ns:
            rows.append((thread_id, begin_ns, end_ns))
    return rows


def _ranges(
    connection: duckdb.DuckDBPyConnection, pattern: str | None, name: str | None
) -> Iterations:
    if name is not None and not _is_text(name):
        return Iterations(RANGE, name, [])
    found = connection.execute(_RANGES_SQL, [pattern, name]).fetchall()
    chosen = found[0][3] if found else None
    return Iterations(RANGE, chosen, [(row[0], row[1], row[2]) for row in found])


def _is_text(name: str) -> bool:
    """Tell whether DuckDB can be asked for it: what a shell passes on may be any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
