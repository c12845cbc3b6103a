"""Tells what a database holds: its tables and views with their comments, for shell and docs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rlscope_analysis import on_demand
from rlscope_analysis.schema import SCHEMA_TOPICS, comments_of, declared_tables, schema_sql
from rlscope_analysis.views import VIEW_TOPICS, view_sql

if TYPE_CHECKING:
    import duckdb

# Ends the names of tables that hold codes; views hold them in words.
_STORAGE = "_coded"
_STORED_FOR = "Storage behind "
_MAIN = "main"
# What the connection uses, and what it made for itself.
_COLUMNS_SQL = """
SELECT table_name, column_name, data_type FROM duckdb_columns()
WHERE NOT internal AND schema_name = ? AND database_name IN (current_database(), 'temp')
ORDER BY table_name, column_index
"""
# Of one trace, or of one that stands beside it.
_SHOW = re.compile(
    r"\s*SHOW\s+TABLES(?:\s+FROM\s+\"?(?P<schema>\w+)\"?)?\s*;?\s*(?:--[^\n]*\s*)?", re.IGNORECASE
)


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
        """Whether users should leave it alone: a part of our views, or the storage behind some."""
        is_storage = self.name.endswith(_STORAGE) or (self.comment or "").startswith(_STORED_FOR)
        return is_storage or self.name.startswith("_")


def describe(connection: duckdb.DuckDBPyConnection, schema: str = _MAIN) -> list[Relation]:
    """List the tables, then the views, each in the order of their names.

    A table of the schema is one also where the connection shows it by a view. schema: `main`, or
    the name of a trace that stands beside it.
    """
    columns: dict[str, list[ColumnDescription]] = {}
    for table, name, type_name in connection.execute(_COLUMNS_SQL, [schema]).fetchall():
        comment = _comments().get(f"{table}.{name}")
        columns.setdefault(table, []).append(ColumnDescription(name, type_name, comment))
    views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    kinds = {name: "view" for (name,) in views} | dict.fromkeys(declared_tables(), "table")
    relations = [
        Relation(name, kinds.get(name, "table"), _comments().get(name), tuple(columns[name]))
        for name in sorted(columns)
    ]
    return sorted(relations, key=lambda relation: relation.kind)


def public(connection: duckdb.DuckDBPyConnection, schema: str = _MAIN) -> list[Relation]:
    """List what users are to ask, also what is only worked out once a query mentions it."""
    found = describe(connection, schema)
    if schema == _MAIN:
        there = {relation.name for relation in found}
        found += [
            Relation(name, "on demand", _comments()[name], ())
            for name in on_demand.ON_DEMAND
            if name not in there
        ]
    return [relation for relation in found if not relation.is_private]


def without_private(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    """Return what to ask in place of SHOW TABLES, which would begin with our private names.

    Any other query is returned as it is.
    """
    asked = _SHOW.fullmatch(query)
    found = public(connection, (asked["schema"] or _MAIN).lower()) if asked else []
    if not found:
        return query
    rows = [(relation.name, relation.kind, relation.comment) for relation in found]
    columns = zip(("name", "kind", "comment"), zip(*rows, strict=True), strict=True)
    return "SELECT " + ", ".join(
        f"unnest([{', '.join(map(_literal, values))}]) AS {name}" for name, values in columns
    )


def _literal(text: str | None) -> str:
    return "NULL" if text is None else "'{}'".format(text.replace("'", "''"))


@cache
def _comments() -> dict[str, str]:
    scripts = [*map(schema_sql, SCHEMA_TOPICS), *map(view_sql, VIEW_TOPICS), *on_demand.scripts()]
    return {name: text for script in scripts for name, text in comments_of(script).items()}
