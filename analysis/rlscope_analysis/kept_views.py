"""The views over a trace, kept for the next one that this process opens.

To create them DuckDB binds views over views over views, which is more than half of what opening a
short trace takes: 0.16 s. A copy of their catalog takes 0.01 s. So who opens several traces creates
them once or twice, and copies them from then on; only for those that hold all tables and columns of
today, which others do not have the same views of.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.relations import show
from rlscope_analysis.schema import declared_tables
from rlscope_analysis.spill import spill_directory

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_DATABASE = "kept_views"
# Most commands open one trace, and would keep them for nobody.
_OPENED_BEFORE = 1


@dataclass(slots=True)
class _Kept:
    """What a process has kept."""

    pid: int = 0
    opened: int = 0
    path: Path | None = None


_kept = _Kept()


class KeptViews:
    """The views of one connection, copied from those that are kept if there are any."""

    def __init__(self) -> None:
        self._path: Path | None = None
        """Of the database that is attached."""

    def attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Attach what is kept, or what is to be; called while files may be attached."""
        path = _path_for_next()
        if path is None:
            return
        rights = "(READ_ONLY)" if path == _kept.path else ""
        quoted = str(path).replace("'", "''")
        # There may be no room for it, or no right to write any more.
        with suppress(duckdb.Error):
            connection.execute(f"ATTACH '{quoted}' AS {_DATABASE} {rights}")
            self._path = path

    def show(
        self,
        connection: duckdb.DuckDBPyConnection,
        database: str,
        present: Mapping[str, Collection[str]],
    ) -> frozenset[str]:
        """Show every table and view of an attached trace, as `relations.show` does."""
        if self._path is None:
            return show(connection, database, present)
        if self._path == _kept.path and _has_all(present):
            connection.execute(f"COPY FROM DATABASE {_DATABASE} TO memory (SCHEMA)")
            lacks: frozenset[str] = frozenset()
        else:
            lacks = show(connection, database, present)
            if _kept.path is None and _has_all(present):
                connection.execute(f"COPY FROM DATABASE memory TO {_DATABASE} (SCHEMA)")
                _kept.path = self._path
        connection.execute(f"DETACH {_DATABASE}")
        return lacks


def _path_for_next() -> Path | None:
    global _kept
    if _kept.pid != os.getpid():
        _kept = _Kept(os.getpid())
    _kept.opened += 1
    if _kept.path is not None:
        return _kept.path
    folder = spill_directory() if _kept.opened > _OPENED_BEFORE else None
    return None if folder is None else folder / f"views-{_kept.opened}.duckdb"


def _has_all(present: Mapping[str, Collection[str]]) -> bool:
    return all(
        table in present and set(columns) <= set(present[table])
        for table, columns in declared_tables().items()
    )
