"""The tables of a trace database, one .sql file per topic: the contract of writer and readers.

The only part of this package that the tracer may import. Times are BIGINT nanoseconds of
CLOCK_MONOTONIC, intervals are [start_ns, end_ns). docs/schema.md is made from the comments.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

# In order: a view may use the tables before it.
SCHEMA_TOPICS = ("session", "threads", "operations", "calls", "samples", "gpu", "derived")
# Filled by the analysis, not by what records: the tables of the topic derived.
DERIVED_TABLES = frozenset(
    {"thread_overlap_coded", "transition_coded", "overlap_fault", "active_set"}
)
# These as well, where there are samples.
DERIVED_FROM_SAMPLES = frozenset({"sample_count_coded", "layer_estimate_coded"})


def schema_sql(topic: str) -> str:
    """Return the statements that create and comment the tables of one topic."""
    return resources.files(__name__).joinpath(f"{topic}.sql").read_text(encoding="utf-8")


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every table, and the views over coded storage, in the database in use."""
    execute_at_once(connection, map(schema_sql, SCHEMA_TOPICS))


def execute_at_once(connection: duckdb.DuckDBPyConnection, scripts: Iterable[str]) -> None:
    """Run scripts in one transaction: hundreds of comments are then not hundreds of writes."""
    connection.execute("BEGIN")
    try:
        for script in scripts:
            connection.execute(script)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def lend_missing_tables(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Create, for this connection only, what the writer of a trace did not know yet: empty.

    Returns the names of the tables and views that were lent.
    """
    present = {
        name
        for (name,) in connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal"
            " UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    }
    lent = set()
    for topic in SCHEMA_TOPICS:
        script = schema_sql(topic)
        if present.issuperset(re.findall(r"^CREATE (?:TABLE|VIEW) (\w+)", script, re.MULTILINE)):
            continue
        for statement in connection.extract_statements(script):
            text = statement.query.strip()
            for kind in ("TABLE", "VIEW"):
                _, found, rest = text.partition(f"CREATE {kind} ")
                name = rest.split("(")[0].split()[0] if found else ""
                if name and name not in present:
                    connection.execute(f"CREATE TEMP {kind} {rest}")
                    lent.add(name)
    return frozenset(lent)
