"""Opens several traces at once, each in a schema of its own, for questions over all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_analysis.contents import read_contents
from rlscope_analysis.damage import damage_told
from rlscope_analysis.errors import TraceError
from rlscope_analysis.relations import show
from rlscope_analysis.schema import DERIVED_TABLES
from rlscope_analysis.trace import checked_version
from rlscope_analysis.trace_file import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_OWN_NAMES = frozenset({"main", "memory", "system", "temp", "whole"})


def open_traces(paths: Mapping[str, Path | str]) -> duckdb.DuckDBPyConnection:
    """Open traces by names of one's own: `base.breakdown` is the view of the one called base.

    Read-only, as `open_trace` does it; close the connection when done. Raises TraceError where a
    trace cannot be opened, or a name is none.
    """
    for name in paths:
        if not _NAME.fullmatch(name) or name in _OWN_NAMES:
            raise TraceError(f"{name!r} is no name for a trace", hint="a word, for example base")
    files = {f"{name}_file": Path(path) for name, path in paths.items()}
    connection = connect(files)
    try:
        for name, (database, path) in zip(paths, files.items(), strict=True):
            with damage_told(path):
                _show(connection, name, database, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _show(connection: duckdb.DuckDBPyConnection, name: str, database: str, path: Path) -> None:
    contents = read_contents(connection, database)
    checked_version(connection, database, path, contents)
    connection.execute(f'CREATE SCHEMA "{name}"')
    if lacks := show(connection, database, contents.columns, name).intersection(DERIVED_TABLES):
        raise TraceError(
            f"{path} lacks {min(lacks)}, which is worked out when a trace is made",
            hint="record it, import it, or recover its spool with this version",
        )
