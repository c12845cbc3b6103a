"""Reads the tables of a trace as the sweep takes them, by several threads at once."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rlscope_analysis.schema.enums import ENUMS, code_of
from rlscope_analysis.sweep.thread_plan import (
    SWEPT_TABLES,
    Chunk,
    Plan,
    in_window,
    intervals_of,
    where,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

# Rows with equal starts: what is around the others comes first.
_TIE_ORDER = {"operation_coded": ", path_id", "native_call_coded": ", depth"}
_PLACES = "SELECT thread_id AS id, row_number() OVER (ORDER BY coalesce(process_id, 0), thread_id)"


class TableReader:
    """Opens the rows of a chunk: streams, each from a cursor of its own.

    A cursor does not know which database its connection uses. A context manager that closes what
    is still open.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, plan: Plan) -> None:
        self._connection = connection
        self._plan = plan
        self._lock = threading.Lock()
        self._cursors: set[duckdb.DuckDBPyConnection] = set()
        self._use = self._other_database()

    def __enter__(self) -> TableReader:
        return self

    def __exit__(self, *_: object) -> None:
        for cursor in self._cursors:
            cursor.close()

    def interrupt(self) -> None:
        """Let every query that runs end with an error."""
        with self._lock:
            for cursor in self._cursors:
                cursor.interrupt()

    @contextmanager
    def open(self, chunk: Chunk, disordered: frozenset[str]) -> Iterator[list[Any]]:
        """Open the rows of every table for _sweep.sweep_threads, those named sorted by a query."""
        cursors: list[duckdb.DuckDBPyConnection] = []
        try:
            yield [
                self._rows(chunk_query(chunk, index, is_sorted=table in disordered), cursors)
                for index, (table, *_) in enumerate(SWEPT_TABLES)
            ]
        finally:
            with self._lock:
                self._cursors.difference_update(cursors)
            for cursor in cursors:
                cursor.close()

    def count_out_of_order(self, chunk: Chunk) -> int:
        """Return how many rows of a chunk are stored before one that belongs before them."""
        listed = ", ".join(map(str, chunk.columns[1].tolist()))
        count = 0
        for index, (_, key, *_) in enumerate(SWEPT_TABLES):
            by_thread = key == "thread_id"
            chosen = chunk_query(chunk, index, [f"thread_id IN ({listed})"] if by_thread else [])
            places = (
                f"{_PLACES} AS place FROM thread" if by_thread else "SELECT NULL::INTEGER AS id, 0"
            )
            query = f"""
                WITH
                  step AS (
                    SELECT {key} AS id, start_ns, lag({key}) OVER () AS id_before,
                      lag(start_ns) OVER () AS before_ns
                    FROM ({chosen})
                  ),
                  place(id, place) AS ({places})
                SELECT count(*) FROM step
                LEFT JOIN place ON place.id = step.id
                LEFT JOIN place AS before ON before.id = step.id_before
                WHERE (step.id = id_before AND start_ns < before_ns)
                  OR coalesce(place.place, step.id) < coalesce(before.place, id_before)
            """  # noqa: S608
            with self._lock:
                ((found,),) = self._connection.execute(query).fetchall()
            count += found
        return count

    def _rows(self, query: str, cursors: list[duckdb.DuckDBPyConnection]) -> object:
        with self._lock:
            cursor = self._connection.cursor()
            self._cursors.add(cursor)
        cursors.append(cursor)
        if self._use:
            cursor.execute(self._use)
        return cursor.sql(query).__arrow_c_stream__()

    def _other_database(self) -> str:
        """Return the statement that makes a cursor use what the connection uses; empty: none."""
        asked = "SELECT current_database(), current_schema()"
        ((database, schema),) = self._connection.execute(asked).fetchall()
        with self._connection.cursor() as cursor:
            if cursor.execute(asked).fetchall() == [(database, schema)]:
                return ""
        quoted = (name.replace('"', '""') for name in (database, schema))
        return 'USE "{}"."{}"'.format(*quoted)


def chunk_query(
    chunk: Chunk, index: int, conditions: list[str] | None = None, *, is_sorted: bool = False
) -> str:
    """Return the query for the rows of a chunk from the table of this number in SWEPT_TABLES."""
    table, key, value, type_name = SWEPT_TABLES[index]
    code = code_of(type_name, value) if type_name in ENUMS else f"{value}::{type_name}"
    conditions = list(conditions or [])
    if not chunk.is_all:
        low, high = chunk.processes if key == "process_id" else chunk.threads
        conditions.append(f"{key} BETWEEN {low} AND {high}")
    query = (
        f"SELECT {key}::INTEGER AS {key}, start_ns::BIGINT AS start_ns, end_ns::BIGINT AS end_ns,"  # noqa: S608
        f" {code} AS {value} FROM {intervals_of(table)}"
        f"{where([*conditions, *in_window(chunk)])}"
    )
    order = f" ORDER BY {key}, start_ns, end_ns DESC{_TIE_ORDER.get(table, '')}"
    return query + order if is_sorted else query
