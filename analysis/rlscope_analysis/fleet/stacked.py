"""One query on every trace, its rows one below the other."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.errors import TraceError
from rlscope_analysis.query import Result, run_query
from rlscope_analysis.trace import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

TRACE = "trace"
"""The column with the name of the member."""


def run_on_all(
    traces: Mapping[str, Path], query: str, left_out: Callable[[str, TraceError], None]
) -> Result:
    """Run a query on each trace, one after the other, as its rows are read.

    A trace that cannot be opened is handed to left_out. Raises TraceError where none can be, and
    where the query fails, or has other columns than on the first; that may be while rows are read.
    """
    results = _results(traces, query, left_out)
    first = next(results, None)
    if first is None:
        raise TraceError("none of the traces can be read", hint="see the warnings above")

    def rows() -> Iterator[tuple[Any, ...]]:
        for name, found in chain([first], results):
            if (found.columns, len(found.types)) != (first[1].columns, len(first[1].types)):
                raise TraceError(
                    f"the result has other columns in {name} than in {first[0]}",
                    hint="name the columns in the query",
                )
            yield from ((name, *row) for row in found.rows)

    return Result((TRACE, *first[1].columns), ("VARCHAR", *first[1].types), rows())


def _results(
    traces: Mapping[str, Path], query: str, left_out: Callable[[str, TraceError], None]
) -> Iterator[tuple[str, Result]]:
    for name, path in traces.items():
        try:
            with damage_reported(path):
                trace = open_trace(path)
        except TraceError as error:
            left_out(name, error)
            continue
        with trace:
            try:
                yield name, run_query(trace, query)
            except TraceError as error:
                raise TraceError(f"{name}: {error}", hint=error.hint) from error
