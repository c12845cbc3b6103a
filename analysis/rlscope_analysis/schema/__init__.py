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
SCHEMA_TOPICS = (
    "session", "threads", "operations", "calls", "samples", "gpu", "calibration", "derived",
)  # fmt: skip
# Filled by the analysis, not by what records: the tables of the topic derived.
DERIVED_TABLES = frozenset(
    {"thread_overlap_coded", "transition_coded", "overlap_fault", "active_set"}
)
# These as well, where there are samples.
DERIVED_FROM_SAMPLES = frozenset({"sample_count_coded", "layer_estimate_coded"})
# Worked out on its own, where only it is missing.
HITS_TABLE = "probe_hits_coded"


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


def commented_columns(script: str) -> dict[str, list[str]]:
    """Return the columns of each table or view of a script: all of them have a comment."""
    columns: dict[str, list[str]] = {}
    for relation, column in re.findall(r"^COMMENT ON COLUMN (\w+)\.(\w+)", script, re.MULTILINE):
        columns.setdefault(relation, []).append(column)
    return columns


def present_columns(connection: duckdb.DuckDBPyConnection) -> dict[str, set[str]]:
    """Return the columns of every table and view that the connection sees."""
    columns: dict[str, set[str]] = {}
    for relation, column in connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal"
    ).fetchall():
        columns.setdefault(relation, set()).add(column)
    return columns


def lend_missing_tables(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Create, for this connection only, what the writer of a trace did not know yet: empty.

    Returns the names of the tables and views that were lent.
    """
    present = present_columns(connection)
    lent = set()
    for topic in SCHEMA_TOPICS:
        script = schema_sql(topic)
        wanted = commented_columns(script)
        if all(present.get(name, set()).issuperset(wanted[name]) for name in wanted):
            continue
        for statement in connection.extract_statements(script):
            text = statement.query.strip()
            for kind in ("TABLE", "VIEW"):
                _, found, rest = text.partition(f"CREATE {kind} ")
                name = rest.split("(")[0].split()[0] if found else ""
                if not name or present.get(name, set()).issuperset(wanted[name]):
                    continue
                connection.execute(f"CREATE TEMP {kind} {rest}")
                if kind == "TABLE" and name in present:
                    _lend_columns(connection, name, present[name])
                else:
                    lent.add(name)
    return frozenset(lent)


def _lend_columns(connection: duckdb.DuckDBPyConnection, table: str, present: set[str]) -> None:
    """Replace a temporary table by a view of that in the trace, NULL in the columns it lacks."""
    columns = connection.execute(
        "SELECT column_name, data_type FROM duckdb_columns()"
        " WHERE table_name = ? AND database_name = 'temp' ORDER BY column_index",
        [table],
    ).fetchall()
    shown = ", ".join(
        name if name in present else f"NULL::{type_name} AS {name}" for name, type_name in columns
    )
    ((database,),) = connection.execute("SELECT current_database()").fetchall()
    source = '"{}".main.{}'.format(database.replace('"', '""'), table)
    connection.execute(f"DROP TABLE temp.{table}")
    connection.execute(f"CREATE TEMP VIEW {table} AS SELECT {shown} FROM {source}")  # noqa: S608 - names of our own
