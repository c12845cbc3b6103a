"""Runs one SQL statement on a trace; whatever is wrong with it comes out as a TraceError."""

from __future__ import annotations

import re
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from rlscope_analysis.catalog import without_private
from rlscope_analysis.cpu_list import own_cpu_count
from rlscope_analysis.errors import TraceError
from rlscope_analysis.trace_file import DAMAGED_HINT, MEMORY_HINT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rlscope_analysis.trace import Trace

_T = TypeVar("_T")
_U = TypeVar("_U")

_BATCH_ROWS = 2048
_LISTEN_PERIOD_S = 0.05
_ADVICE = ("Did you mean", "Candidate")
# Most of what is asked, which need not be read twice.
_ONE = re.compile(r"(--.*\n|\s)*(SELECT|WITH|FROM)\b[^;]*\Z")
# What would be gone with the database in memory; TEMP says that one knows.
_CHANGE = re.compile(r"\s*(DROP|ALTER|CREATE(?! +(OR +REPLACE +)?TEMP))\b", re.IGNORECASE)
# What DuckDB says where somebody writes into a table of a trace.
_WRITES = re.compile(
    "read-only mode|Can only (delete from|update|merge into) base table|is not an? table"
)
_SAVE_HINT = "save a result with: rlscope-trace sql TRACE QUERY --format csv > FILE"
# Of the file, not of the query.
_DAMAGES = (
    duckdb.IOException, duckdb.InternalException, duckdb.FatalException,
    duckdb.SerializationException,
)  # fmt: skip
_DAMAGED = re.compile("corrupt|checksum|invalidated", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Result:
    """The columns of a result, their types, and its rows, which can be walked through once."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def split_statements(trace: Trace, text: str) -> list[str]:
    """Split SQL text into its statements, as DuckDB reads it."""
    if _ONE.match(text):
        return [text]
    with _as_trace_error():
        return [part.query for part in trace.connection.extract_statements(text)]


def run_query(trace: Trace, query: str) -> Result:
    """Run the one statement in `query`."""
    statements = split_statements(trace, query)
    if len(statements) != 1:
        found = "no statement" if not statements else f"{len(statements)} statements"
        raise TraceError(
            f"{found} where one query is expected", hint="rlscope-trace sql TRACE 'SELECT ...'"
        )
    if _CHANGE.match(statements[0]):
        raise TraceError(f"a trace is read-only: {_words(statements[0])}", hint=_SAVE_HINT)
    trace.provide(statements[0])
    with _as_trace_error():
        cursor = _execute(trace.connection, without_private(trace.connection, statements[0]))
        description = cursor.description or []
    return Result(
        columns=tuple(str(column[0]) for column in description),
        types=tuple(str(column[1]) for column in description),
        rows=_rows(cursor) if description else iter(()),
    )


def run_records(trace: Trace, query: str) -> Iterator[dict[str, Any]]:
    """Run the one statement in `query`; yields each row by the names of its columns."""
    result = run_query(trace, query)
    return (dict(zip(result.columns, row, strict=True)) for row in result.rows)


def fetch_together(
    trace: Trace, queries: Sequence[str], meanwhile: Callable[[], _T]
) -> tuple[list[list[tuple[Any, ...]]], _T]:
    """Run queries at the same time, as far as there are CPUs; returns the rows of each.

    The one that takes longest should come first. meanwhile: asks the trace for the rest, on its own
    connection; what it returns comes second.
    """
    connections = [trace.connection.cursor() for _ in queries]
    # More than there are CPUs would slow down the longest, for which all others wait.
    workers = max(2, own_cpu_count())

    def fetch(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
        return connection.execute(query).fetchall()

    work: list[Callable[[], Any]]
    work = [partial(fetch, *pair) for pair in zip(connections, queries, strict=True)]
    with _as_trace_error():
        *rows, rest = _run_interruptibly(
            [*work, meanwhile], [*connections, trace.connection], workers=workers
        )
    return rows, rest


def run_together(
    trace: Trace, first: Callable[[Trace], _T], second: Callable[[Trace], _U]
) -> tuple[_T, _U]:
    """Run two readers at the same time; returns what each returns.

    Both see what the trace holds and what was worked out before. `second` has a connection of its
    own: it makes nothing that `first` needs, and sees none of its temporary tables.
    """
    beside = replace(trace, connection=trace.connection.cursor())
    with closing(beside.connection):
        work: list[Callable[[], Any]] = [partial(first, trace), partial(second, beside)]
        found, other = _run_interruptibly(work, [trace.connection, beside.connection], workers=2)
    return found, other


def _words(statement: str) -> str:
    return " ".join(statement.split()[:2])


def _execute(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyConnection:
    if threading.current_thread() is not threading.main_thread():
        # A Ctrl-C is not heard here: what waits for this thread hears it, if anybody does.
        return connection.execute(query)
    (result,) = _run_interruptibly([partial(connection.execute, query)], [connection], workers=1)
    return result


def _run_interruptibly(
    work: Sequence[Callable[[], _T]],
    connections: Sequence[duckdb.DuckDBPyConnection],
    *,
    workers: int,
) -> list[_T]:
    """Run queries on other threads, so that this one can hear a Ctrl-C and stop them.

    Neither DuckDB 1.5 nor 2.0 looks for signals while it works on one long step. Where one fails,
    nobody waits for the others.
    """
    failed: Future[_T] | None = None
    with _listening() as pressed, ThreadPoolExecutor(max_workers=workers) as executor:
        running = [executor.submit(one) for one in work]
        while wait(running, timeout=_LISTEN_PERIOD_S).not_done:
            failed = failed or next((one for one in running if _has_failed(one)), None)
            # Each time anew: an interrupt before the query has begun stops nothing.
            if pressed.is_set() or failed is not None:
                for connection in connections:
                    connection.interrupt()
    if pressed.is_set():
        raise KeyboardInterrupt
    if failed is not None:
        failed.result()
    return [future.result() for future in running]


def _has_failed(future: Future[_T]) -> bool:
    return future.done() and future.exception() is not None


@contextmanager
def _listening() -> Iterator[threading.Event]:
    """Note a Ctrl-C instead of raising it, which could come between any two steps."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _rows(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while True:
        with _as_trace_error():
            batch = cursor.fetchmany(_BATCH_ROWS)
        if not batch:
            return
        yield from batch


@contextmanager
def _as_trace_error() -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, MemoryError) as error:
        raise _explained(error) from error


def _explained(error: Exception) -> TraceError:
    message = str(error)
    lines = [line.strip() for line in message.strip().splitlines()] or [type(error).__name__]
    if isinstance(error, duckdb.ConnectionException):
        return TraceError("the trace is closed", hint="ask before it is closed")
    if _WRITES.search(message):
        return TraceError(f"a trace is read-only: {lines[0]}", hint=_SAVE_HINT)
    if "disabled by configuration" in message or "disabled through configuration" in message:
        return TraceError(f"queries reach nothing but the trace: {lines[0]}", hint=_SAVE_HINT)
    if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)):
        return TraceError(f"the query takes more memory than it may: {lines[0]}", hint=MEMORY_HINT)
    if isinstance(error, _DAMAGES) or _DAMAGED.search(lines[0]):
        return TraceError(f"the trace cannot be read: {lines[0]}", hint=DAMAGED_HINT)
    advice = next((line for line in lines[1:] if line.startswith(_ADVICE)), None)
    return TraceError(lines[0], hint=advice)
