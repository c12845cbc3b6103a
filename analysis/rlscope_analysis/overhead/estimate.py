"""Works out what events cost in a recording, and stores it: table calibration_estimate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlscope_analysis.overhead.alone import alone
from rlscope_analysis.overhead.combine import combined
from rlscope_analysis.overhead.cost import Cost
from rlscope_analysis.overhead.hand_overs import part_of_wakeups
from rlscope_analysis.overhead.missing import doubts
from rlscope_analysis.schema.facts.qualities import Quality

if TYPE_CHECKING:
    import duckdb

_MEASURED_SQL = """
SELECT event, part, method, mean_ns, stddev_ns, coalesce(n, 0), low_ns, high_ns, false,
  coalesce(quality, 'ok'), code, subject, detail, coalesce(numbers, [])
FROM calibration_measured ORDER BY ALL
"""


def store(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill calibration_estimate from the tables of the whole trace; nothing if all are empty."""
    measured = [_cost(*row) for row in connection.execute(_MEASURED_SQL).fetchall()]
    if not measured:
        return
    handed_over = part_of_wakeups(connection)
    for cost in combined(measured, alone(connection), doubts(connection), handed_over):
        marks = ", ".join("?" * len(cost.row))
        connection.execute(f"INSERT INTO calibration_estimate VALUES ({marks})", cost.row)  # noqa: S608


def _cost(*columns: Any) -> Cost:  # noqa: ANN401 - as the table has them
    *of_cost, grade, code, subject, detail, numbers = columns
    reported = Quality(grade, code, subject, detail, tuple(numbers))
    return replace(Cost(*of_cost), quality=reported)
