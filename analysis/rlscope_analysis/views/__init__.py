"""The views of a trace database, one .sql file per topic, and what puts them there."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from rlscope_analysis.schema import commented_columns, execute_at_once, present_columns

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
    "probe_hits",
    "breakdown_corrected",
    "leading_thread",
    "overhead_wall",
    "resource_time",
    "blocked_on",
    "gil_wait",
    "operation_tree",
    "transitions",
    "gpu_busy",
    "launch",
    "waits_on_peer",
    "idle_gap",
    "launch_latency",
    "gpu_attribution",
    "gpu_idle",
    "gpu_utilization",
    "active_set",
    "timeline",
)


def view_sql(topic: str) -> str:
    """Return the statements that create and comment the views of one topic."""
    return resources.files(__name__).joinpath(f"{topic}.sql").read_text(encoding="utf-8")


def install_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every view in the database of a writable connection that holds the raw tables."""
    execute_at_once(connection, map(view_sql, VIEW_TOPICS))


def lend_missing_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create, for this connection only, the views that the writer of a trace did not know yet.

    All of a topic are lent if one is missing or lacks columns: another one of it may tell more than
    it did, with the columns that it always had.
    """
    present = present_columns(connection)
    for topic in VIEW_TOPICS:
        script = view_sql(topic)
        wanted = commented_columns(script)
        if all(present.get(name, set()).issuperset(wanted[name]) for name in wanted):
            continue
        for statement in connection.extract_statements(script):
            text = statement.query.strip()
            head, found, rest = text.partition("CREATE OR REPLACE VIEW ")
            if found:
                connection.execute(f"{head}CREATE OR REPLACE TEMP VIEW {rest}")
