"""Opens several traces at once, each in a schema of its own, for questions over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.trace import named_files, show_named
from rlscope_analysis.trace_file import connect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import duckdb


def open_traces(paths: Mapping[str, Path | str]) -> duckdb.DuckDBPyConnection:
    """Open traces by names of one's own: `base.breakdown` is the view of the one called base.

    Read-only, as `open_trace` does it; close the connection when done. Raises TraceError where a
    trace cannot be opened, or a name is none.
    """
    files = named_files(paths)
    connection = connect(files)
    try:
        show_named(connection, files)
    except BaseException:
        connection.close()
        raise
    return connection
