"""Relations that are worked out when a query mentions them: docs/critical_path.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis import critical_path, findings, training

if TYPE_CHECKING:
    import duckdb

PATH = (
    "iteration", "_steady_iteration", "_training_span", "_phase", "critical_path",
    "critical_path_coded",
)  # fmt: skip
FINDINGS = findings.RELATIONS
TRAINING = training.RELATIONS
ON_DEMAND = (*PATH, *FINDINGS, *TRAINING)
# As segments are streamed.
_NO_SEGMENTS_SQL = """
CREATE TABLE _lead_segment (
  thread_id INTEGER, start_ns BIGINT, end_ns BIGINT, path_id INTEGER, state THREAD_STATE
)
"""


def scripts() -> tuple[str, ...]:
    """Return the statements that make and comment them."""
    return critical_path.relations_sql(), findings.findings_sql(), training.relations_sql()


def create_empty(connection: duckdb.DuckDBPyConnection) -> None:
    """Create them where the tables and views of a trace are, without a row: to describe them."""
    connection.execute(critical_path.holders_sql())
    connection.execute(critical_path.relations_sql())
    findings.add_findings(connection)
    connection.execute(_NO_SEGMENTS_SQL)
    connection.execute(training.relations_sql())
    connection.execute("DROP TABLE _lead_segment; DROP TABLE _wait_for_holder")
