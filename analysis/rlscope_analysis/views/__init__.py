"""The views of a trace database, one .sql file per topic, and what puts them there."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from rlscope_analysis.schema import execute_at_once

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
    "marked_process",
    "overhead_wall",
    "resource_time",
    "blocked_on",
    "gil_wait",
    "operation_node",
    "operation_tree",
    "environment_step",
    "transitions",
    "gpu_busy",
    "launch",
    "waits_on_peer",
    "wait_in_driver",
    "collective",
    "flow",
    "idle_gap",
    "launch_latency",
    "gpu_attribution",
    "gpu_idle",
    "gpu_utilization",
    "active_set",
    "timeline",
)


# Stands in views for the expression in the file of this name, which several of them share.
_BUCKET_RULE = "bucket_rule"


def view_sql(topic: str) -> str:
    """Return the statements that create and comment the views of one topic."""
    script = _file(topic)
    mark = f"/* {_BUCKET_RULE} */"
    return script.replace(mark, _file(_BUCKET_RULE)) if mark in script else script


@cache
def _file(name: str) -> str:
    """Return the SQL in a file, without the comment that it begins with if others hold it."""
    text = resources.files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return text[text.index("CASE") :].rstrip() if name == _BUCKET_RULE else text


def install_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every view in the database of a writable connection that holds the raw tables."""
    execute_at_once(connection, map(view_sql, VIEW_TOPICS))
