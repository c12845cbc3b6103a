"""Fills the derived tables of a trace from its raw ones: once, when the trace is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import duckdb

from rlscope_analysis.errors import TraceError
from rlscope_analysis.overhead import estimate as overhead_costs
from rlscope_analysis.overhead import hits as overhead_hits
from rlscope_analysis.relations import replace_by_tables
from rlscope_analysis.schema import DERIVED_TABLES
from rlscope_analysis.schema.facts.losses import LOSSES
from rlscope_analysis.sweep import active_set, layer_estimate
from rlscope_analysis.sweep import threads as thread_overlap
from rlscope_analysis.views import install_views
from rlscope_analysis.window import restrict

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlscope_analysis.window import Window

_Found = TypeVar("_Found")
# What odd values in a trace lead to; not a full disk, nor a Ctrl-C.
_ODD_VALUES = (duckdb.DataError, duckdb.InvalidInputException)
_ODD_TRACE = (ValueError, TypeError, ArithmeticError, LookupError, TraceError, *_ODD_VALUES)
_MOST_LETTERS = 200
_NOT_DERIVED = "not_derived"


def derive(
    connection: duckdb.DuckDBPyConnection, *, progress: Callable[[int, int], None] | None = None
) -> None:
    """Compute and store what the overlap engine finds, into the empty tables of the connection."""
    hits = _part(connection, "the hits of probes", lambda: overhead_hits.count(connection))
    _part(connection, "the costs of events", lambda: overhead_costs.store(connection))
    overlap = _part(
        connection,
        "the time of the threads",
        lambda: thread_overlap.compute(connection, progress=progress),
    )
    if overlap is not None:
        _part(connection, "the time of the threads", lambda: _store_overlap(connection, overlap))
    if hits is not None:
        _part(connection, "the hits of probes", lambda: overhead_hits.store(connection, hits))
    _part(connection, "the estimate of layers", lambda: layer_estimate.store(connection))
    _part(connection, "what was active together", lambda: active_set.store(connection))


def _part(
    connection: duckdb.DuckDBPyConnection, what: str, work: Callable[[], _Found]
) -> _Found | None:
    """Do a part of the work; where the trace holds what it cannot work with, only that is missing.

    Then trace_stat says so, and the tables of the part are empty or lack rows.
    """
    try:
        return work()
    except _ODD_TRACE as error:
        cause = error.__cause__
        if isinstance(cause, duckdb.Error) and not isinstance(cause, _ODD_VALUES):
            raise
        reason = str(error).strip().partition("\n")[0][:_MOST_LETTERS] or type(error).__name__
    connection.execute(
        "INSERT INTO trace_stat (kind, code, record, detail) VALUES (?, ?, ?, ?)",
        [LOSSES[_NOT_DERIVED].kind, _NOT_DERIVED, what, reason],
    )
    return None


def _store_overlap(
    connection: duckdb.DuckDBPyConnection, overlap: thread_overlap.ThreadOverlap
) -> None:
    thread_overlap.store(connection, overlap)
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


def derive_in_memory(
    connection: duckdb.DuckDBPyConnection,
    *,
    window: Window | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Derive for an open trace: in a window, or of one that lacks the tables.

    With a window, the tables show only what lies in it from then on.
    """
    # Swept while the tables are whole: a call that the window cuts is entered where it begins.
    start_ns, end_ns = (None, None) if window is None else (window.start_ns, window.end_ns)
    hits = overhead_hits.count(connection, start_ns=start_ns, end_ns=end_ns)
    if _lacks_costs(connection):
        replace_by_tables(connection, ["calibration_estimate"])
        overhead_costs.store(connection)
    overlap = thread_overlap.compute(
        connection, start_ns=start_ns, end_ns=end_ns, progress=progress
    )
    if window is not None:
        restrict(connection, window)
    replace_by_tables(connection, DERIVED_TABLES)
    _store_overlap(connection, overlap)
    overhead_hits.store(connection, hits)
    layer_estimate.store(connection)
    active_set.store(connection)


def _lacks_costs(connection: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether costs were measured, but not yet worked out: a window has those of the whole."""
    ((lacks,),) = connection.execute(
        "SELECT EXISTS (FROM calibration_measured) AND NOT EXISTS (FROM calibration_estimate)"
    ).fetchall()
    return bool(lacks)
