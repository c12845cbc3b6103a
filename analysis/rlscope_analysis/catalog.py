"""Tells what a database holds: its tables and views with their comments, for shell and docs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_RELATIONS_SQL = """
SELECT table_name AS name, 'table' AS kind, comment FROM duckdb_tables() WHERE NOT internal
UNION ALL
SELECT view_name AS name, 'view' AS kind, comment FROM duckdb_views() WHERE NOT internal
ORDER BY kind, name
"""
_COLUMNS_SQL = """
SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal
ORDER BY table_name, column_index
"""


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column and what its comment says."""

    name: str
    type: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class Relation:
    """One table or view, its comment and its columns."""

    name: str
    kind: str
    comment: str | None
    columns: tuple[ColumnDescription, ...]

    @property
    def is_private(self) -> bool:
        """Whether users should leave it alone: its name begins with an underscore."""
        return self.name.startswith("_")


def describe(connection: duckdb.DuckDBPyConnection) -> list[Relation]:
    """List the tables, then the views, each in the order of their names."""
    columns: dict[str, list[ColumnDescription]] = {}
    for table, name, type_name, comment in connection.execute(_COLUMNS_SQL).fetchall():
        columns.setdefault(table, []).append(ColumnDescription(name, type_name, comment))
    return [
        Relation(name, kind, comment, tuple(columns.get(name, ())))
        for name, kind, comment in connection.execute(_RELATIONS_SQL).fetchall()
    ]
