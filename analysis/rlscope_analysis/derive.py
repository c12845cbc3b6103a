"""Fills the derived tables of a trace from its raw ones: once, when the trace is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.overhead import estimate as overhead_costs
from rlscope_analysis.overhead import hits as overhead_hits
from rlscope_analysis.schema import schema_sql
from rlscope_analysis.sweep import active_set, layer_estimate
from rlscope_analysis.sweep import threads as thread_overlap
from rlscope_analysis.views import install_views
from rlscope_analysis.window import restrict

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    from rlscope_analysis.window import Window


def derive(
    connection: duckdb.DuckDBPyConnection, *, progress: Callable[[int, int], None] | None = None
) -> None:
    """Compute and store what the overlap engine finds, into the empty tables of the connection."""
    hits = overhead_hits.count(connection)
    overhead_costs.store(connection)
    _store(connection, thread_overlap.compute(connection, progress=progress), hits)


def _store(
    connection: duckdb.DuckDBPyConnection,
    overlap: thread_overlap.ThreadOverlap,
    hits: overhead_hits.Hits,
) -> None:
    thread_overlap.store(connection, overlap)
    overhead_hits.store(connection, hits)
    layer_estimate.store(connection)
    faults = [(relation, fault, count) for (relation, fault), count in overlap.faults.items()]
    if overlap.rows_out_of_order:
        faults.append(("all", "disordered", overlap.rows_out_of_order))
    for row in sorted(faults):
        connection.execute("INSERT INTO overlap_fault VALUES (?, ?, ?)", row)
    active_set.store(connection)


def complete(
    connection: duckdb.DuckDBPyConnection, *, progress: Callable[[int, int], None] | None = None
) -> None:
    """Add everything that is derived to a database whose raw tables are filled: its last step."""
    install_views(connection)
    derive(connection, progress=progress)


def derive_temporarily(
    connection: duckdb.DuckDBPyConnection,
    *,
    window: Window | None = None,
    lent: frozenset[str] = frozenset(),
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Derive for this connection only: in a window, or of a trace that lacks the tables.

    With a window, the tables show only what lies in it from then on; `lent` as in `restrict`.
    """
    # Swept while the tables are whole: a call that the window cuts is entered where it begins.
    start_ns, end_ns = (None, None) if window is None else (window.start_ns, window.end_ns)
    hits = overhead_hits.count(connection, start_ns=start_ns, end_ns=end_ns)
    if _lacks_costs(connection):
        overhead_costs.store_temporarily(connection)
    overlap = thread_overlap.compute(
        connection, start_ns=start_ns, end_ns=end_ns, progress=progress
    )
    if window is not None:
        restrict(connection, window, lent)
    views = "SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal"
    shown = {name for (name,) in connection.execute(views).fetchall()}
    for statement in connection.extract_statements(schema_sql("derived")):
        head, found, rest = statement.query.strip().partition("CREATE TABLE ")
        if not found:
            continue
        # One of which the trace has fewer columns is shown by a view until now.
        table = rest.split("(")[0].strip()
        if table in shown:
            connection.execute(f"DROP VIEW temp.{table}")
        connection.execute(f"{head}CREATE OR REPLACE TEMP TABLE {rest}")
    _store(connection, overlap, hits)


def _lacks_costs(connection: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether costs were measured, but not yet worked out: a window has those of the whole."""
    ((lacks,),) = connection.execute(
        "SELECT EXISTS (FROM calibration_measured) AND NOT EXISTS (FROM calibration_estimate)"
    ).fetchall()
    return bool(lacks)


def derive_hits_temporarily(connection: duckdb.DuckDBPyConnection) -> None:
    """Count the events of a trace that lacks nothing but their table, which was lent to it."""
    overhead_hits.store(connection, overhead_hits.count(connection))
