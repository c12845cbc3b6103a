"""Proves that a database holds what was put into it."""

from collections.abc import Mapping
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema import declared_tables
from rlscope_analysis.schema.enums import ENUMS, code_of
from rlscope_trace.errors import VerificationError
from rlscope_trace.ingest.writer.columns import Column, Table

_INTEGERS = frozenset(
    f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG")
) | {"INTEGER", "UINTEGER"}
# Per column: how many values, and their sum, minimum and maximum; of text, of its UTF-8 bytes.
Totals = dict[str, tuple[int, int | None, int | None, int | None]]


def totals_of(table: Table) -> Totals:
    """Add up every column of a table, without overflow."""
    return {name: _total(column) for name, column in table.items()}


def check_rows(con: duckdb.DuckDBPyConnection, expected: Mapping[str, int]) -> None:
    """Compare the rows of the tables of a reopened database; VerificationError at a difference."""
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in expected)  # noqa: S608
    for table, found in zip(expected, con.execute(f"SELECT {counts}").fetchall()[0], strict=True):
        if found != expected[table]:
            raise VerificationError(
                f"{expected[table]} rows of {table} were written, {found} are stored"
            )


def check_totals(con: duckdb.DuckDBPyConnection, expected: Mapping[str, Totals]) -> None:
    """Compare a reopened database with the totals; VerificationError at a difference."""
    for table, totals in expected.items():
        types = declared_tables()[table]
        parts = ["count(*)"]
        for name in totals:
            value = _number_of(name, types[name])
            parts += [f"count({value})", f"sum({value})", f"min({value})", f"max({value})"]
        row = con.execute(f"SELECT {', '.join(parts)} FROM {table}").fetchall()[0]  # noqa: S608
        for index, (name, total) in enumerate(totals.items()):
            found = tuple(row[1 + 4 * index : 5 + 4 * index])
            if found != total:
                raise VerificationError(
                    f"count, sum, minimum and maximum of {table}.{name} are {found}, not {total}"
                )


def _number_of(name: str, type_name: str) -> str:
    """Return what makes a number of a column; sums of integers are wide enough without a cast."""
    if "VARCHAR" in type_name:
        return f"strlen({name})"
    if type_name in ENUMS:
        return code_of(type_name, name)
    return name if type_name in _INTEGERS else f"{name}::HUGEINT"


def _total(column: Column) -> tuple[int, int | None, int | None, int | None]:
    if isinstance(column, np.ndarray):
        numbers = column.compressed() if isinstance(column, np.ma.MaskedArray) else column
        if not len(numbers):
            return 0, None, None, None
        return len(numbers), exact_sum(numbers), int(numbers.min()), int(numbers.max())
    values = [
        len(value.encode()) if isinstance(value, str) else int(value)
        for value in column
        if value is not None
    ]
    if not values:
        return 0, None, None, None
    return len(values), sum(values), min(values), max(values)


def exact_sum(numbers: NDArray[Any]) -> int:
    """Add up integers of any size without overflow, whatever a damaged file holds."""
    wide = numbers.astype(np.int64, copy=False)
    return (int((wide >> 32).sum()) << 32) + int((wide & 0xFFFFFFFF).sum())
