"""Works out what events cost in a recording, and stores it: table calibration_estimate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlscope_analysis.overhead.account import in_run
from rlscope_analysis.overhead.combine import combined
from rlscope_analysis.overhead.cost import Cost
from rlscope_analysis.overhead.missing import doubts
from rlscope_analysis.overhead.place import PROBED_CUDA_SQL
from rlscope_analysis.schema.facts.qualities import Quality
from rlscope_analysis.window import SPAN_SQL

if TYPE_CHECKING:
    import duckdb

_MEASURED_SQL = """
SELECT event, part, method, mean_ns, stddev_ns, coalesce(n, 0), low_ns, high_ns, false,
  coalesce(quality, 'ok'), code, subject, detail, coalesce(numbers, [])
FROM calibration_measured ORDER BY ALL
"""
_DEAR_SHARE_SQL = f"""
SELECT coalesce(avg(is_dear::INTEGER), 0) FROM (
  SELECT coalesce(s.is_dear, false) AS is_dear
  FROM native_call_coded AS c JOIN site AS s ON s.site_id = c.site_id
  UNION ALL SELECT is_dear FROM ({PROBED_CUDA_SQL})
)
"""  # noqa: S608 - a query of our own
_HAS_WINDOWS_SQL = "SELECT EXISTS (FROM calibration_window), EXISTS (FROM program_time)"


def store(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill calibration_estimate from the tables of the whole trace; nothing if all are empty."""
    measured = [_cost(*row) for row in connection.execute(_MEASURED_SQL).fetchall()]
    ((first_ns, last_ns),) = connection.execute(SPAN_SQL).fetchall()
    ((has_windows, has_account),) = connection.execute(_HAS_WINDOWS_SQL).fetchall()
    accounts: list[Cost] = []
    toggles: list[Cost] = []
    missing: dict[str, Quality] = {}
    if first_ns is not None and last_ns is not None:
        span = (first_ns, last_ns)
        missing = doubts(connection)
        if has_account:
            programs = {row.event: row for row in measured if row.method == "program"}
            accounts = in_run(connection, span, programs, _misses(measured))
        if has_windows:
            # Brings numpy along.
            from rlscope_analysis.overhead.toggled import toggled

            toggles = toggled(connection, span)
    ((dear_share,),) = connection.execute(_DEAR_SHARE_SQL).fetchall()
    found = combined(measured, accounts, toggles, missing, dear_share)
    for cost in [*accounts, *toggles, *found]:
        marks = ", ".join("?" * len(cost.row))
        connection.execute(f"INSERT INTO calibration_estimate VALUES ({marks})", cost.row)  # noqa: S608


def _misses(measured: list[Cost]) -> dict[str, Cost]:
    """Return what one run for a bystander takes, by event of the calibration.

    Where the account of the loop does not tell, the cost of the loop does: scaled as the traced
    event is, of which both are known.
    """
    rows = {(row.event, row.method): row for row in measured if row.mean_ns is not None}
    found = {}
    for event in {row.event for row in measured if row.event.startswith("bystander_")}:
        program, micro = rows.get((event, "program")), rows.get((event, "micro"))
        if program is not None:
            found[event] = program
        elif micro is not None and micro.mean_ns is not None:
            traced = event.removeprefix("bystander_")
            share = _program_share(measured, traced)
            found[event] = replace(
                micro, mean_ns=micro.mean_ns * share,
                low_ns=None if micro.low_ns is None else micro.low_ns * share,
                high_ns=None if micro.high_ns is None else micro.high_ns * share,
            )  # fmt: skip
    return found


def _program_share(measured: list[Cost], event: str) -> float:
    """Return which part of the cost of an event its program alone takes; 1: not known."""
    micro = sum(
        row.mean_ns or 0.0 for row in measured if (row.event, row.method) == (event, "micro")
    )
    programs = [row.mean_ns for row in measured if (row.event, row.method) == (event, "program")]
    if not programs or not programs[0] or micro <= 0:
        return 1.0
    runs = 2 if event == "call" else 1
    return min(1.0, runs * programs[0] / micro)


def _cost(*columns: Any) -> Cost:  # noqa: ANN401 - as the table has them
    *of_cost, grade, code, subject, detail, numbers = columns
    told = Quality(grade, code, subject, detail, tuple(numbers))
    return replace(Cost(*of_cost), quality=told)
