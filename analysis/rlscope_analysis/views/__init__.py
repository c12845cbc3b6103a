"""The views of a trace database, one .sql file per topic, and what puts them there."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

# In order: a view may use those before it. Private ones begin with an underscore.
VIEW_TOPICS = (
    "state_step",
    "measured",
    "thread_time",
    "thread_switch",
    "run_queue_latency",
    "waker",
    "cpu_share",
    "thread_overlap",
    "breakdown",
    "resource_time",
    "blocked_on",
    "operation_tree",
    "transitions",
    "gpu_busy",
    "launch",
    "idle_gap",
    "active_set",
    "timeline",
)


def view_sql(topic: str) -> str:
    """Return the statements that create and comment the views of one topic."""
    return resources.files(__name__).joinpath(f"{topic}.sql").read_text(encoding="utf-8")


def install_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every view in the database of a writable connection that holds the raw tables."""
    for topic in VIEW_TOPICS:
        connection.execute(view_sql(topic))


def lend_missing_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create, for this connection only, the views that the writer of a trace did not know yet."""
    present = {
        name
        for (name,) in connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    }
    for topic in VIEW_TOPICS:
        for statement in connection.extract_statements(view_sql(topic)):
            text = statement.query.strip()
            head, found, rest = text.partition("CREATE OR REPLACE VIEW ")
            if found and rest.split()[0] not in present:
                connection.execute(f"{head}CREATE OR REPLACE TEMP VIEW {rest}")
