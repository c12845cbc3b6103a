"""What a connection shows of a trace: its tables, and our views over them.

A trace is attached to a database in memory; what it is asked stands there, in a schema per trace.
DuckDB looks for the names in a view in the schema of the view first, so each schema is on its own.
Views that a file holds are never run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema import (
    SCHEMA_TOPICS,
    create_table_sql,
    declared_tables,
    defined_views,
    execute_at_once,
    schema_sql,
)
from rlscope_analysis.schema.enums import ENUMS, types_sql
from rlscope_analysis.views import VIEW_TOPICS, view_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import duckdb

MAIN = "main"
# Beside it, while `main` shows an interval only.
WHOLE = "whole"


def show(
    connection: duckdb.DuckDBPyConnection,
    database: str,
    present: Mapping[str, Collection[str]],
    schema: str = MAIN,
) -> frozenset[str]:
    """Show every table and view of an attached trace in a schema of the database in memory.

    present: the columns of its tables. What its writer did not know yet is empty, or NULL. Returns
    the names of the tables that the trace lacks.
    """
    scripts = [*map(schema_sql, SCHEMA_TOPICS), *map(view_sql, VIEW_TOPICS)]
    _create(connection, database, present, scripts, schema)
    return frozenset(declared_tables().keys() - present.keys())


def show_whole(
    connection: duckdb.DuckDBPyConnection, database: str, present: Mapping[str, Collection[str]]
) -> None:
    """Show in `whole` what a window is cut out of: every table, launches, edges of collectives."""
    connection.execute(f"CREATE SCHEMA {WHOLE}")
    _create(connection, database, present, map(view_sql, ("launch", "collective")), WHOLE)


def _create(
    connection: duckdb.DuckDBPyConnection,
    database: str,
    present: Mapping[str, Collection[str]],
    scripts: Iterable[str],
    schema: str,
) -> None:
    """Create views of the tables, and those of scripts without their comments."""
    queries = {
        table: _table_query(database, table, columns, present)
        for table, columns in declared_tables().items()
    }
    for script in scripts:
        queries |= defined_views(script)
    views = "".join(f'CREATE VIEW "{schema}".{name} AS {query};' for name, query in queries.items())
    execute_at_once(connection, [types_sql(), views])


def replace_by_tables(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Put an empty table in memory in the place of each of these views of tables."""
    for name in names:
        connection.execute(f"DROP VIEW {MAIN}.{name}")
        connection.execute(create_table_sql(name))


def _table_query(
    database: str,
    table: str,
    columns: Mapping[str, str],
    present: Mapping[str, Collection[str]],
) -> str:
    held = present.get(table, ())
    shown = ", ".join(
        # An older writer may not have known all words of today.
        name if name in held and type_name not in ENUMS
        else f"{name if name in held else 'NULL'}::{type_name} AS {name}"
        for name, type_name in columns.items()
    )  # fmt: skip
    rows = f'FROM "{database}".main.{table}' if held else "WHERE false"
    return f"SELECT {shown} {rows}"
