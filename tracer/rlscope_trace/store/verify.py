"""Proves that a finished trace database holds what the spool told, before the spool is deleted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from rlscope_trace.errors import VerificationError

_STATE_COLUMNS = ("thread_id", "start_ns", "end_ns", "state", "cpu", "waker")

_STATE_TOTALS = """
SELECT
  count(*),
  sum(thread_id), min(thread_id), max(thread_id),
  sum(start_ns), min(start_ns), max(start_ns),
  sum(end_ns), min(end_ns), max(end_ns),
  sum(state), min(state), max(state),
  sum(cpu), min(cpu), max(cpu),
  sum(waker), min(waker), max(waker)
FROM thread_state_coded
"""

_THREAD_TOTALS = """
SELECT count(*), coalesce(sum(end_ns - start_ns), 0), coalesce(sum(lost_ns), 0) FROM thread
"""

_ROWS = """
SELECT
  (SELECT count(*) FROM meta), (SELECT count(*) FROM clock), (SELECT count(*) FROM process),
  (SELECT count(*) FROM trace_stat), (SELECT count(*) FROM capture),
  (SELECT count(*) FROM operation_coded), (SELECT count(*) FROM operation_path),
  (SELECT count(*) FROM operation_payload), (SELECT count(*) FROM async_range),
  (SELECT count(*) FROM mark), (SELECT count(*) FROM calibration_window),
  (SELECT count(*) FROM program_time), (SELECT count(*) FROM calibration_measured),
  (SELECT count(*) FROM counter), (SELECT count(*) FROM cuda_call_coded),
  (SELECT count(*) FROM gpu_activity_coded), (SELECT count(*) FROM string),
  (SELECT count(*) FROM gpu_status), (SELECT count(*) FROM gpu_device),
  (SELECT count(*) FROM gpu_overhead), (SELECT count(*) FROM gpu_memory),
  (SELECT count(*) FROM gpu_stream)
"""
_ROWS_TABLES = (
    "meta", "clock", "process", "trace_stat", "capture", "operation_coded", "operation_path",
    "operation_payload", "async_range", "mark", "calibration_window",
    "program_time", "calibration_measured", "counter",
    "cuda_call_coded", "gpu_activity_coded", "string", "gpu_status", "gpu_device", "gpu_overhead",
    "gpu_memory", "gpu_stream",
)  # fmt: skip

# A thread whose rows and lost_ns are not its lifetime, or do not lie in it; rows of no thread.
_CONSERVATION = """
WITH told AS (
  SELECT thread_id, sum(end_ns - start_ns) AS ns, min(start_ns) AS first_ns, max(end_ns) AS last_ns
  FROM thread_state_coded
  GROUP BY thread_id
)
SELECT count(*), min(coalesce(thread.thread_id, told.thread_id))
FROM thread FULL JOIN told USING (thread_id)
WHERE
  coalesce(told.ns, 0) + thread.lost_ns IS DISTINCT FROM thread.end_ns - thread.start_ns
  OR told.first_ns < thread.start_ns
  OR told.last_ns > thread.end_ns
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


@dataclass(frozen=True, slots=True)
class Expected:
    """What the decoder handed out."""

    state_rows: int
    state_totals: Mapping[str, tuple[int, int, int]]
    """Per column of thread_state_coded: sum, min and max."""
    rows: Mapping[str, int]
    """Per other table: rows."""
    lifetime_ns: int
    lost_ns: int


def verify(con: duckdb.DuckDBPyConnection, expected: Expected) -> None:
    """Compare a reopened database with what was put into it; VerificationError at a difference."""
    _check_totals(con, expected)
    broken, first = _row(con, _CONSERVATION)
    if broken:
        raise VerificationError(
            f"the states of {broken} threads do not add up to their lifetime,"
            f" the first is thread_id {first}"
        )
    crossings, parts, threads = _row(con, _ORDER)
    if crossings or parts != threads:
        raise VerificationError(f"{crossings + parts - threads} thread states are out of order")


def _check_totals(con: duckdb.DuckDBPyConnection, expected: Expected) -> None:
    count, *stored = _row(con, _STATE_TOTALS)
    if count != expected.state_rows:
        raise VerificationError(
            f"{expected.state_rows} thread states were written, {count} are stored"
        )
    for index, column in enumerate(_STATE_COLUMNS if count else ()):
        found = tuple(stored[3 * index : 3 * index + 3])
        if found != expected.state_totals[column]:
            raise VerificationError(
                f"sum, minimum and maximum of thread_state_coded.{column} are {found},"
                f" not {expected.state_totals[column]}"
            )
    threads, lifetime_ns, lost_ns = _row(con, _THREAD_TOTALS)
    if (threads, lifetime_ns, lost_ns) != (
        expected.rows["thread"],
        expected.lifetime_ns,
        expected.lost_ns,
    ):
        raise VerificationError(
            f"{threads} threads of {lifetime_ns} ns, {lost_ns} of them lost, are stored, not"
            f" {expected.rows['thread']} of {expected.lifetime_ns} and {expected.lost_ns}"
        )
    for table, found_rows in zip(_ROWS_TABLES, _row(con, _ROWS), strict=True):
        written_rows = expected.rows.get(table, 0)
        if found_rows != written_rows:
            raise VerificationError(
                f"{written_rows} rows of {table} were written, {found_rows} are stored"
            )


def _row(con: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    rows: list[tuple[int, ...]] = con.execute(query).fetchall()
    return rows[0]


def exact_sum(numbers: NDArray[Any]) -> int:
    """Add up integers of any size without overflow, whatever a damaged file holds."""
    wide = numbers.astype(np.int64, copy=False)
    return (int((wide >> 32).sum()) << 32) + int((wide & 0xFFFFFFFF).sum())
