"""Fills the derived tables of a trace from its raw ones: once, when the trace is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis import active_set, thread_overlap
from rlscope_analysis.schema import schema_sql
from rlscope_analysis.views import install_views

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

DERIVED_TABLES = frozenset(
    {"thread_overlap_coded", "transition_coded", "overlap_fault", "active_set"}
)


def derive(
    connection: duckdb.DuckDBPyConnection, *, progress: Callable[[int, int], None] | None = None
) -> None:
    """Compute and store what the overlap engine finds, into the empty tables of the connection."""
    overlap = thread_overlap.compute(connection, progress=progress)
    thread_overlap.store(connection, overlap)
    _store_faults(connection, overlap)
    active_set.store(connection)


def _store_faults(
    connection: duckdb.DuckDBPyConnection, overlap: thread_overlap.ThreadOverlap
) -> None:
    faults = [(relation, fault, count) for (relation, fault), count in overlap.faults.items()]
    if overlap.rows_out_of_order:
        faults.append(("all", "disordered", overlap.rows_out_of_order))
    for row in sorted(faults):
        connection.execute("INSERT INTO overlap_fault VALUES (?, ?, ?)", row)


def complete(
    connection: duckdb.DuckDBPyConnection, *, progress: Callable[[int, int], None] | None = None
) -> None:
    """Add everything that is derived to a database whose raw tables are filled: its last step."""
    install_views(connection)
    derive(connection, progress=progress)


def derive_temporarily(
    connection: duckdb.DuckDBPyConnection, *, progress: Callable[[int, int], None] | None = None
) -> None:
    """Derive for this connection only: in a window, or of a trace that lacks the tables."""
    for statement in connection.extract_statements(schema_sql("derived")):
        head, found, rest = statement.query.strip().partition("CREATE TABLE ")
        if found:
            connection.execute(f"{head}CREATE OR REPLACE TEMP TABLE {rest}")
    derive(connection, progress=progress)
