"""Opens a trace database for reading, or says why that cannot be."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from rlscope_analysis.catalog import describe
from rlscope_analysis.errors import TraceError
from rlscope_analysis.schema import (
    DERIVED_FROM_SAMPLES,
    DERIVED_TABLES,
    HITS_TABLE,
    lend_missing_tables,
)
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_analysis.views import lend_missing_views
from rlscope_analysis.window import window_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

_RECORD_HINT = "record one with: sudo rlscope-trace -o trace.duckdb -- COMMAND"
# Bytes 8 to 12 of every DuckDB file, behind a checksum.
_DUCKDB_MAGIC = b"DUCK"
_MAGIC_OFFSET = 8
# A query, or a view inside a trace from elsewhere, must not read or write other files, and a name
# in it is never one of our Python variables. Given at the opening, not set afterwards: connections
# of one process to one file share their configuration.
_CONFIGURATION = {
    "python_enable_replacements": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
    # Where sorts of long traces go: the folder of a trace need not be writable.
    "temp_directory": str(Path(tempfile.gettempdir()) / f"rlscope-trace-{os.getpid()}"),
}


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace that is open for reading; a context manager that closes it."""

    path: Path
    connection: duckdb.DuckDBPyConnection
    schema_version: int
    has_temporaries: bool = False
    """Whether this connection sees what its cursors do not: lent tables, or a stretch of time."""

    def relation(self, name: str) -> duckdb.DuckDBPyRelation:
        """Return a table or view of the trace, for example `breakdown`.

        Its .df() is a pandas DataFrame, .pl() a polars one, .to_arrow_table() an Arrow table;
        .filter(), .aggregate() and others are pushed down into DuckDB. TraceError where there is
        no such relation.
        """
        with self._telling("the relation cannot be read"):
            if any(name == relation.name for relation in describe(self.connection)):
                return self.connection.sql('FROM "{}"'.format(name.replace('"', '""')))
        raise TraceError(
            f"{self.path} has no table or view {name!r}",
            hint=f"rlscope-trace sql {self.path} .tables",
        )

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Return the result of a query as a relation: see `relation` for what it turns into.

        The query runs when the relation is turned into data. Raises TraceError where it is none.
        """
        with self._telling("the query failed"):
            relation: duckdb.DuckDBPyRelation | None = self.connection.sql(query)
        if relation is None:
            raise TraceError(f"{query!r} is no query: it has no result", hint="SELECT ...")
        return relation

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        try:
            yield
        except duckdb.ConnectionException as error:
            raise TraceError(f"{self.path} is closed", hint="ask before it is closed") from error
        except duckdb.Error as error:
            raise TraceError(f"{what}: {first_line(error)}") from error

    def close(self) -> None:
        """Close the file; relations that were not turned into data yet go with it."""
        self.connection.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open_trace(
    path: Path | str,
    *,
    start: str | None = None,
    end: str | None = None,
    derives: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Open the trace database at `path`, read-only and with nothing else within its reach.

    start, end: only what lies between, in seconds since the start of the trace or with a unit
    ("1.5", "200ms"). derives=False: without the derived tables, if they would have to be worked
    out first; for those who only read raw ones. progress(done, total) is called while a trace that
    does not hold its derived tables, or a part of one, is swept. Raises TraceError where the file
    is absent, no trace, or not readable by this version, and where nothing lies between the times.
    """
    path = Path(path)
    _check_file(path)
    connection = _connect(path)
    try:
        version = _schema_version(connection, path)
        _prepare(connection, start, end, derives=derives, progress=progress)
    except (duckdb.InterruptException, RuntimeError) as error:
        connection.close()
        if "interrupted" in str(error).lower():
            # What becomes of a Ctrl-C that DuckDB hears before Python does.
            raise KeyboardInterrupt from error
        raise
    except duckdb.Error as error:
        connection.close()
        raise TraceError(
            f"cannot read {path}: {first_line(error)}",
            hint="if its recording was interrupted: rlscope-trace recover SPOOL",
        ) from error
    except BaseException:
        connection.close()
        raise
    return Trace(path, connection, version, has_temporaries=_has_temporaries(connection))


def _prepare(
    connection: duckdb.DuckDBPyConnection,
    start: str | None,
    end: str | None,
    *,
    derives: bool,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Bring a trace of an older writer up to date, and cut out the window asked for."""
    lent = lend_missing_tables(connection)
    if "capture" in lent:
        # Its writer knew one kind of record only.
        connection.execute("INSERT INTO temp.capture VALUES (NULL, 'thread_state', true, NULL)")
    lend_missing_views(connection)
    window = window_of(connection, start, end)
    needed = DERIVED_TABLES
    if "cpu_sample_coded" not in lent:
        needed |= DERIVED_FROM_SAMPLES
    lacks = derives and (lent & needed or _lacks_derived_rows(connection))
    if window is not None or lacks:
        # Brings numpy along: 0.1 s that most questions do without.
        from rlscope_analysis.derive import derive_temporarily

        derive_temporarily(connection, window=window, lent=lent, progress=progress)
    elif derives and HITS_TABLE in lent:
        from rlscope_analysis.derive import derive_hits_temporarily

        derive_hits_temporarily(connection)


def _lacks_derived_rows(connection: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether the writer derived nothing, though there is something to derive."""
    ((lacks,),) = connection.execute(
        "SELECT NOT EXISTS (FROM thread_overlap_coded)"
        " AND EXISTS (FROM thread WHERE end_ns > start_ns)"
    ).fetchall()
    return bool(lacks)


def _has_temporaries(connection: duckdb.DuckDBPyConnection) -> bool:
    ((count,),) = connection.execute(
        "SELECT (SELECT count(*) FROM duckdb_tables() WHERE temporary)"
        " + (SELECT count(*) FROM duckdb_views() WHERE temporary AND NOT internal)"
    ).fetchall()
    return bool(count)


def first_line(error: Exception) -> str:
    """Return the first line of what an error says."""
    return str(error).strip().partition("\n")[0]


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise _directory_error(path)
        with path.open("rb") as file:
            head = file.read(_MAGIC_OFFSET + len(_DUCKDB_MAGIC))
    except FileNotFoundError as error:
        raise TraceError(f"there is no trace at {path}", hint=_RECORD_HINT) from error
    except PermissionError as error:
        raise TraceError(
            f"reading {path} is not permitted", hint=f'sudo chown "$USER" {path}'
        ) from error
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # a NUL inside
        raise TraceError(f"{str(path)!r} is no path: {error}", hint=_RECORD_HINT) from error
    if head[_MAGIC_OFFSET:] != _DUCKDB_MAGIC:
        raise TraceError(f"{path} is not a trace: no DuckDB database", hint=_RECORD_HINT)


def _directory_error(path: Path) -> TraceError:
    if (path / "records.bin").exists() or (path / "session.json").exists():
        return TraceError(
            f"{path} is a spool: its recording was not finished",
            hint=f"rlscope-trace recover {path}",
        )
    return TraceError(f"{path} is a directory, not a trace", hint=_RECORD_HINT)


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(str(path), read_only=True, config=dict(_CONFIGURATION))
    except duckdb.Error as error:
        message = first_line(error)
        if "Could not set lock" in message:
            holder = re.search(r"\(PID (\d+)\)", message)
            raise TraceError(
                f"{path} is being written by {f'pid {holder[1]}' if holder else 'another program'}",
                hint="try again when it has finished",
            ) from error
        if "different configuration" in message:
            raise TraceError(
                f"{path} is open in this process, by duckdb.connect()",
                hint="close that connection first, or go on with it: it has the views too",
            ) from error
        if "read a database file with version" in message:
            raise TraceError(
                f"{path} was written by a newer DuckDB than {duckdb.__version__}",
                hint="pip install --upgrade duckdb",
            ) from error
        raise TraceError(
            f"cannot read {path}: {message}",
            hint="if its recording was interrupted: rlscope-trace recover SPOOL",
        ) from error


def _schema_version(connection: duckdb.DuckDBPyConnection, path: Path) -> int:
    try:
        facts = dict(
            connection.execute(
                "SELECT key, value FROM meta WHERE key IN ('schema_version', 'tool_version')"
            ).fetchall()
        )
        version = int(facts["schema_version"])
    except (duckdb.CatalogException, duckdb.BinderException, KeyError, TypeError, ValueError):
        raise TraceError(
            f"{path} is a DuckDB database but not a trace: its meta has no schema_version",
            hint=_RECORD_HINT,
        ) from None
    if version > SCHEMA_VERSION:
        writer = facts.get("tool_version")
        raise TraceError(
            f"{path} has schema version {version}"
            + (f", written by rlscope-trace {writer}" if writer else "")
            + f"; this one reads up to {SCHEMA_VERSION}",
            hint="pip install --upgrade rlscope-trace",
        )
    return version
