"""Reads trace databases and answers questions about them; never records.

import rlscope_analysis
with rlscope_analysis.open("trace.duckdb") as trace:
trace.relation("breakdown").df()        # pandas; .pl() polars, .to_arrow_table() Arrow
trace.sql("SELECT ...").df()
trace.segments().df()                   # what every thread did, piece by piece
rlscope_analysis.overlap(intervals, operations=operations)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlscope_analysis.errors import TraceError
    from rlscope_analysis.notebook import open_trace as open
    from rlscope_analysis.sweep.segments import segments
    from rlscope_analysis.sweep.sets import (
        inclusive,
        overlap,
        overlap_regions,
        overlap_transitions,
    )
    from rlscope_analysis.trace import Trace
    from rlscope_analysis.traces import open_traces

# Imported when first used: the recorder reads the schema, and must not wait for DuckDB and pandas.
_HOMES = {
    "TraceError": ("errors", "TraceError"),
    "Trace": ("trace", "Trace"),
    "open": ("notebook", "open_trace"),
    "open_traces": ("traces", "open_traces"),
    "overlap": ("sweep.sets", "overlap"),
    "overlap_regions": ("sweep.sets", "overlap_regions"),
    "overlap_transitions": ("sweep.sets", "overlap_transitions"),
    "inclusive": ("sweep.sets", "inclusive"),
    "segments": ("sweep.segments", "segments"),
}

__all__ = [
    "Trace",
    "TraceError",
    "inclusive",
    "open",
    "open_traces",
    "overlap",
    "overlap_regions",
    "overlap_transitions",
    "segments",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the home of the name holds
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = value
    return value
