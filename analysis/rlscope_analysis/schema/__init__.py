"""The tables of a trace database, one .sql file per topic: the contract of writer and readers.

The only part of this package that the tracer may import. Times are BIGINT nanoseconds of
CLOCK_MONOTONIC, intervals are [start_ns, end_ns). docs/schema.md is made from the comments.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from rlscope_analysis.schema.enums import ENUMS, types_sql, word_of
from rlscope_analysis.schema.vocabulary import NOT_MEASURED

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

# In order: a view may use the tables before it.
SCHEMA_TOPICS = (
    "session", "threads", "operations", "calls", "samples", "gpu", "ray", "calibration", "derived",
)  # fmt: skip
# Filled by the analysis, not by what records: the tables of the topic derived.
DERIVED_TABLES = (
    "thread_overlap_coded", "transition_coded", "overlap_fault", "active_set",
    "sample_count_coded", "layer_estimate_coded", "probe_hits_coded",
)  # fmt: skip


def schema_sql(topic: str) -> str:
    """Return the statements that create and comment the tables of one topic."""
    return resources.files(__name__).joinpath(f"{topic}.sql").read_text(encoding="utf-8")


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every type, table, and view over coded storage, in the database in use."""
    execute_at_once(connection, [types_sql(), *map(schema_sql, SCHEMA_TOPICS)])


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


def comments_of(script: str) -> dict[str, str]:
    """Return the comments of a script, by the name of a relation or column."""
    pattern = r"^COMMENT ON (?:TABLE|VIEW|COLUMN) ([\w.]+) IS '((?:[^']|'')*)';$"
    return {name: text.replace("''", "'") for name, text in re.findall(pattern, script, re.M)}


@cache
def declared_tables() -> dict[str, dict[str, str]]:
    """Return the columns of each table with their types."""
    script = "\n".join(map(schema_sql, SCHEMA_TOPICS))
    return {
        table: dict(re.findall(r"(\w+) ([A-Z_]+(?:\[\])?)", columns))
        for table, columns in re.findall(r"^CREATE TABLE (\w+) \((.*?)\);$", script, re.M | re.S)
    }


def value_of(table: str, column: str) -> str:
    """Return SQL for a column of a derived table, out of a list of what the sweep gives."""
    if column == "gpu":
        return f"nullif(unnest(?), {NOT_MEASURED})::BOOLEAN"
    type_name = declared_tables()[table][column]
    return word_of(type_name, "unnest(?)") if type_name in ENUMS else "unnest(?)"


def create_table_sql(table: str) -> str:
    """Return the statement that creates one of the tables."""
    columns = ", ".join(f"{name} {kind}" for name, kind in declared_tables()[table].items())
    return f"CREATE TABLE {table} ({columns})"


@cache
def defined_views(script: str) -> dict[str, str]:
    """Return the query of each view that a script creates, by its name."""
    pattern = r"^CREATE (?:OR REPLACE )?VIEW (\w+) AS\s+(.*?);$"
    return dict(re.findall(pattern, script, re.M | re.S))
