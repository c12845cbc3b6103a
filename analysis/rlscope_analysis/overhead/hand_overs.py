"""Which part of the wakeups hand a lock or the GIL from one thread of a process to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_PART_SQL = """
WITH woken AS (
  SELECT s.thread_id, s.start_ns, t.process_id, k.process_id AS waker_process_id
  FROM thread_state_coded AS s
  JOIN thread AS t ON t.thread_id = s.thread_id
  JOIN thread AS k ON k.thread_id = s.waker_thread_id
  WHERE s.state = 'runnable'
), handed AS (
  SELECT count(*) AS wakeups
  FROM (FROM wait_coded WHERE kind IN ('lock', 'gil')) AS w
  JOIN woken AS s ON s.thread_id = w.thread_id AND s.start_ns = w.end_ns
  WHERE s.process_id = s.waker_process_id
)
SELECT coalesce((SELECT wakeups FROM handed) / nullif((SELECT count(*) FROM woken), 0), 0)::DOUBLE
"""


def part_of_wakeups(connection: duckdb.DuckDBPyConnection) -> float:
    """Return it, 0 to 1: of the wakeups by traced threads."""
    ((part,),) = connection.execute(_PART_SQL).fetchall()
    return float(part)
