"""Opens a trace database for reading, or says why that cannot be."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import duckdb

from rlscope_analysis.catalog import describe, without_private
from rlscope_analysis.contents import fault_of, read_contents
from rlscope_analysis.damage import damage_reported
from rlscope_analysis.errors import QuestionError, TraceError
from rlscope_analysis.findings import add_findings, remove_findings
from rlscope_analysis.kept_views import KeptViews
from rlscope_analysis.on_demand import FINDINGS, ON_DEMAND, PATH, TRAINING
from rlscope_analysis.relations import show, show_whole
from rlscope_analysis.schema import DERIVED_TABLES
from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from rlscope_analysis.trace_file import RECORD_HINT, attached_bytes, connect, first_line
from rlscope_analysis.window import window_of
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from rlscope_analysis.contents import Contents

DATABASE = "trace"
"""The name under which a file is attached: trace.main.thread is its own table."""
_WORD_LENGTH = 40
# Of traces that stand beside it: their names, and what ends those of their files.
_NAME, _FILE = re.compile(r"[a-z][a-z0-9_]*"), "_file"
_OWN_NAMES = frozenset({"main", "memory", "system", "temp", "trace", "whole"})
_MENTIONED = re.compile(rf"\b({'|'.join(ON_DEMAND)})\b", re.IGNORECASE)


class _Making:
    """What is worked out once, when it is asked for: a lock for each part, and what is there."""

    def __init__(self) -> None:
        self.path, self.findings, self.training = RLock(), RLock(), RLock()
        # Each part is added at once, with a lock of its own.
        self.made: set[str] = set()
        self.answers: dict[str, list[tuple[Any, ...]]] = {}


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace that is open for reading; a context manager that closes it."""

    path: Path
    connection: duckdb.DuckDBPyConnection
    schema_version: int
    _making: _Making = field(default_factory=_Making, repr=False, compare=False)

    def relation(self, name: str) -> duckdb.DuckDBPyRelation:
        """Return a table or view of the trace, for example `breakdown`.

        Its .df() is a pandas DataFrame, .pl() a polars one, .to_arrow_table() an Arrow table;
        .filter(), .aggregate() and others are pushed down into DuckDB. TraceError where there is
        no such relation.
        """
        self.provide(name)
        with self._telling("the relation cannot be read"):
            if any(name == relation.name for relation in describe(self.connection)):
                return self.connection.sql('FROM "{}"'.format(name.replace('"', '""')))
        raise TraceError(
            f"{self.path} has no table or view {name!r}",
            hint=f"rlscope-trace sql {shlex.quote(str(self.path))} .tables",
        )

    def sql(self, query: str) -> duckdb.DuckDBPyRelation:
        """Return the result of a query as a relation: see `relation` for what it turns into.

        The query runs when the relation is turned into data. Raises TraceError where it is none.
        """
        self.provide(query)
        with self._telling("the query failed"):
            relation: duckdb.DuckDBPyRelation | None = self.connection.sql(
                without_private(self.connection, query)
            )
        if relation is None:
            raise TraceError(f"{query!r} is no query: it has no result", hint="SELECT ...")
        return relation

    def once(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about what the file holds, run the first time only."""
        answers = self._making.answers
        if query not in answers:
            with self._telling("the trace cannot be read"):
                answers[query] = self.connection.execute(query).fetchall()
        return answers[query]

    def segments(self) -> duckdb.DuckDBPyRelation:
        """Return what every thread did, piece by piece in order: docs/flow.md has the columns.

        From then on `segment` is a relation for `sql` too. It is worked out while it is read.
        """
        # Brings numpy along.
        from rlscope_analysis.sweep.segments import segment_relation

        with self._telling("the segments cannot be read"):
            return segment_relation(self)

    def critical_path(self, *, per: str | None = None) -> duckdb.DuckDBPyRelation:
        """Return what held each iteration up, piece by piece (docs/critical_path.md).

        per: the range that counts as an iteration; None: what looks like one. From then on
        `iteration` and `critical_path` are relations for `sql` too, until the next call: turn what
        it returned into data before. TraceError where none is called `per`.
        """
        # Brings numpy along.
        from rlscope_analysis.critical_path.path import add_critical_path
        from rlscope_analysis.training.relations import remove_training

        with self._making.path, self._telling("the critical path cannot be worked out"):
            self._making.made.clear()
            remove_findings(self.connection)
            remove_training(self.connection)
            add_critical_path(self, per=per)
            self._making.made.update(PATH)
            return self.connection.sql("FROM critical_path")

    def provide(self, query: str) -> None:
        """Work out the relations that a query mentions and that only stand there once asked for.

        TraceError where that cannot be.
        """
        making, mentioned = self._making, self._lacks(query)
        if not mentioned:
            return
        with self._telling("the critical path cannot be worked out"):
            with making.path:
                if making.made.isdisjoint(PATH):
                    self.critical_path()
            if not mentioned.isdisjoint(FINDINGS):
                with making.findings:
                    if making.made.isdisjoint(FINDINGS):
                        add_findings(self.connection)
                        making.made.update(FINDINGS)
            if not mentioned.isdisjoint(TRAINING):
                from rlscope_analysis.training.relations import add_training

                with making.training:
                    if making.made.isdisjoint(TRAINING):
                        add_training(self)
                        making.made.update(TRAINING)

    def _lacks(self, query: str) -> set[str]:
        """Return which of their names it is, or reads, and which are not there yet."""
        found = {name.lower() for name in _MENTIONED.findall(query)} - self._making.made
        if not found or query.lower() in found:
            return found
        try:
            names = self.connection.get_table_names(query)
        except duckdb.Error:
            return found
        return found & {name.lower() for name in names}

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


def open_trace(  # noqa: PLR0913 - one parameter per option
    path: Path | str,
    *,
    start: str | None = None,
    end: str | None = None,
    derives: bool = True,
    progress: Callable[[int, int], None] | None = None,
    beside: Mapping[str, Path] | None = None,
) -> Trace:
    """Open the trace database at `path`, read-only and with nothing else within its reach.

    start, end: only what lies between, in seconds since the start of the trace or with a unit
    ("1.5", "200ms"). derives=False: without the derived tables, if they would have to be worked
    out first; for those who only read raw ones. progress(done, total) is called while a trace that
    does not hold its derived tables, or a part of one, is swept. beside: other traces by names of
    one's own, whole: `new.breakdown` is the view of the one called new. Raises TraceError where a
    file is absent, no trace, or not readable by this version, where nothing lies between the times,
    and where a name is none.
    """
    path = Path(path)
    others = named_files(beside or {})
    views = KeptViews()
    connection = connect({DATABASE: path, **others}, last=views.attach)
    try:
        with damage_reported(path):
            contents = read_contents(connection, DATABASE)
            version = checked_version(connection, DATABASE, path, contents)
            lacks = views.show(connection, DATABASE, contents.columns)
            _derive(connection, contents, lacks, start, end, derives=derives, progress=progress)
        show_named(connection, others)
    except BaseException:
        connection.close()
        raise
    return Trace(path, connection, version)


def named_files(paths: Mapping[str, Path | str]) -> dict[str, Path]:
    """Return under which name each trace is attached. Raises QuestionError where a name is none."""
    for name in paths:
        if not _NAME.fullmatch(name) or name in _OWN_NAMES:
            raise QuestionError(f"{name!r} is no name for a trace", hint="a word, for example base")
    return {f"{name}{_FILE}": Path(path) for name, path in paths.items()}


def show_named(connection: duckdb.DuckDBPyConnection, files: Mapping[str, Path]) -> None:
    """Show each attached trace in a schema of its name. Raises TraceError where one is none."""
    for database, path in files.items():
        with damage_reported(path):
            contents = read_contents(connection, database)
            checked_version(connection, database, path, contents)
            name = database.removesuffix(_FILE)
            connection.execute(f'CREATE SCHEMA "{name}"')
            lacks = show(connection, database, contents.columns, name)
        if derived := lacks.intersection(DERIVED_TABLES):
            raise TraceError(
                f"{path} lacks {min(derived)}, which is worked out when a trace is made",
                hint="record it, import it, or recover its spool with this version",
            )


def _derive(  # noqa: PLR0913 - what open_trace() was given
    connection: duckdb.DuckDBPyConnection,
    contents: Contents,
    lacks: frozenset[str],
    start: str | None,
    end: str | None,
    *,
    derives: bool,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Show the window asked for, and what the trace lacks of what is derived."""
    window = window_of(connection, start, end)
    if window is not None:
        show_whole(connection, DATABASE, contents.columns)
    unfinished = derives and (lacks.intersection(DERIVED_TABLES) or _lacks_derived(connection))
    if window is not None or unfinished:
        # Brings numpy along: 0.1 s that most questions do without.
        from rlscope_analysis.derive import derive_in_memory

        derive_in_memory(connection, window=window, progress=progress)


def _lacks_derived(connection: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether the writer derived nothing, though there is something to derive."""
    ((lacks,),) = connection.execute(
        "SELECT NOT EXISTS (FROM thread_overlap_coded)"
        " AND EXISTS (FROM thread WHERE end_ns > start_ns)"
    ).fetchall()
    return bool(lacks)


def checked_version(
    connection: duckdb.DuckDBPyConnection, database: str, path: Path, contents: Contents
) -> int:
    """Return the version of the schema, of a file that holds what a trace may hold.

    Raises TraceError where it is another one, or where it holds anything else.
    """
    if "meta" not in contents.columns:
        raise _no_trace(path, "it has no meta")
    file_bytes = attached_bytes(connection, database)
    if fault := fault_of(connection, database, contents.only("meta"), file_bytes):
        raise _no_trace(path, fault)
    try:
        facts = dict(
            connection.execute(
                f"SELECT key, value FROM {database}.main.meta"  # noqa: S608 - a name of our own
                " WHERE key IN ('schema_version', 'tool_version')"
            ).fetchall()
        )
        version = int(facts["schema_version"])
    except (duckdb.BinderException, KeyError, TypeError, ValueError):
        raise _no_trace(path, "its meta has no schema_version") from None
    if version != SCHEMA_VERSION:
        raise _other_version(path, version, facts.get("tool_version"))
    if fault := fault_of(connection, database, contents, file_bytes):
        raise _no_trace(path, fault)
    return version


def _no_trace(path: Path, fault: str) -> TraceError:
    return TraceError(f"{path} is a DuckDB database but not a trace: {fault}", hint=RECORD_HINT)


def _other_version(path: Path, version: int, writer: str | None) -> TraceError:
    reported = f"{path} has schema version {version}"
    if writer:
        reported += f", written by rlscope-trace {printable(writer)[:_WORD_LENGTH]}"
    if version > SCHEMA_VERSION:
        return TraceError(
            f"{reported}; this one reads up to {SCHEMA_VERSION}",
            hint="pip install --upgrade rlscope-trace",
        )
    return TraceError(
        f"{reported}; this one reads {SCHEMA_VERSION}",
        hint="make it anew: record it, import it, or recover its spool",
    )
