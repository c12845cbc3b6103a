"""Proves that a database holds the columns that were put into it."""

from collections.abc import Mapping

import duckdb
import numpy as np

from rlscope_trace.errors import VerificationError
from rlscope_trace.importers.columns import Column, Table
from rlscope_trace.store.verify import exact_sum

# Per column: how many values, and their sum, minimum and maximum; of text, of its UTF-8 bytes.
Totals = dict[str, tuple[int, int | None, int | None, int | None]]


def totals_of(table: Table) -> Totals:
    """Add up every column of a table, without overflow."""
    return {name: _total(column) for name, column in table.items()}


def check_stored(con: duckdb.DuckDBPyConnection, expected: Mapping[str, Totals]) -> None:
    """Compare a reopened database with the totals; VerificationError at a difference."""
    for table, totals in expected.items():
        is_text = {
            name: "VARCHAR" in kind
            for name, kind, *_ in con.execute(f"DESCRIBE {table}").fetchall()
        }
        parts = ["count(*)"]
        for name in totals:
            value = f"strlen({name})" if is_text[name] else f"{name}::HUGEINT"
            parts += [f"count({name})", f"sum({value})", f"min({value})", f"max({value})"]
        row = con.execute(f"SELECT {', '.join(parts)} FROM {table}").fetchall()[0]  # noqa: S608
        for index, (name, total) in enumerate(totals.items()):
            found = tuple(row[1 + 4 * index : 5 + 4 * index])
            if found != total:
                raise VerificationError(
                    f"count, sum, minimum and maximum of {table}.{name} are {found}, not {total}"
                )


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
