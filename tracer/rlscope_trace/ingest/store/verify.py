"""Proves that the thread states of a finished trace add up, before its spool is deleted."""

import duckdb

from rlscope_trace.errors import VerificationError

# A thread whose rows and lost_ns are not its lifetime, or do not lie in it; rows of no thread.
_CONSERVATION = """
WITH reported AS (
  SELECT thread_id, sum(end_ns - start_ns) AS ns, min(start_ns) AS first_ns, max(end_ns) AS last_ns
  FROM thread_state_coded
  GROUP BY thread_id
)
SELECT count(*), min(coalesce(thread.thread_id, reported.thread_id))
FROM thread AS thread FULL JOIN reported USING (thread_id)
WHERE
  coalesce(reported.ns, 0) + thread.lost_ns IS DISTINCT FROM thread.end_ns - thread.start_ns
  OR reported.first_ns < thread.start_ns
  OR reported.last_ns > thread.end_ns
"""

# A window without a partition streams over the rows as they are stored. Rows of one thread must
# follow each other in time; a thread that comes back later would be an overlap of its parts, which
# shows as more parts than threads.
_ORDER = """
WITH neighbours AS (
  SELECT
    thread_id, start_ns, end_ns,
    lag(thread_id) OVER () AS previous_thread_id,
    lag(end_ns) OVER () AS previous_end_ns
  FROM thread_state_coded
)
SELECT
  count(*) FILTER (
    WHERE end_ns <= start_ns OR (thread_id = previous_thread_id AND start_ns < previous_end_ns)
  ),
  count(*) FILTER (WHERE thread_id IS DISTINCT FROM previous_thread_id),
  (SELECT count(DISTINCT thread_id) FROM thread_state_coded)
FROM neighbours
"""


def check_states(con: duckdb.DuckDBPyConnection) -> None:
    """Check that states fill the life of their thread, in order; VerificationError if not."""
    broken, first = _row(con, _CONSERVATION)
    if broken:
        raise VerificationError(
            f"the states of {broken} threads do not add up to their lifetime,"
            f" the first is thread_id {first}"
        )
    crossings, parts, threads = _row(con, _ORDER)
    if crossings or parts != threads:
        raise VerificationError(f"{crossings + parts - threads} thread states are out of order")


def _row(con: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    rows: list[tuple[int, ...]] = con.execute(query).fetchall()
    return rows[0]
