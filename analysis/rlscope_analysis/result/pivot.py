"""Turns rows into columns: one line per label, with a column for each value of the pivot."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlscope_analysis.result.column import Column, Role, Scale, Unit
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import Table, sum_of, total_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.result.note import Note
    from rlscope_analysis.result.table import Pivot, Values

_TOTAL = "total"


def pivoted(table: Table, pivot: Pivot) -> Table:
    """Return a table with a line for all rows that differ in the pivot alone, and its sum.

    Each value is in % of the sum too, with its standard error where the table has one.
    """
    over, at = table.place(pivot.over), table.place(pivot.value)
    by_role = {
        role: [place for place, column in enumerate(table.columns) if column.role is role]
        for role in Role
    }
    labels = [place for place in by_role[Role.SHOWN] if place not in {over, at}]
    lines: dict[Values, dict[Any, list[Values]]] = defaultdict(lambda: defaultdict(list))
    for row in table.rows:
        label = tuple(row[place] for place in (*labels, *by_role[Role.KEY]))
        lines[label][row[over]].append(row)
    values = sorted(
        {value for line in lines.values() for value in line}, key=lambda value: _rank(pivot, value)
    )
    columns = [table.columns[place] for place in labels]
    said = table.columns[over].said
    for value in values:
        name = f"{pivot.over}: {value}"
        heading = None if said is None else note(said.code, value=value)
        words = "-" if value is None else str(value)
        columns += [
            _sum_column(name, words, f"{name} error", heading),
            Column(f"{name} error", Unit.NS, Role.HIDDEN),
        ]
    columns.append(_sum_column(_TOTAL, _TOTAL))
    rows = [
        (*label[: len(labels)], *_sums(line, values, at, by_role[Role.ERROR]))
        for label, line in lines.items()
    ]
    total = total_of(columns, rows)
    return replace(table, columns=tuple(columns), rows=rows, total=total, pivot=None)


def _sum_column(
    name: str, label: str, error: str | None = None, heading: Note | None = None
) -> Column:
    share_of = None if error is None else _TOTAL
    return Column(
        name, Unit.NS, label=label, additive=True, share_of=share_of, share_error=error,
        scale=Scale.SHORT_MS, heading=heading,
    )  # fmt: skip


def _rank(pivot: Pivot, value: object) -> tuple[int, str]:
    order = pivot.order
    return order.index(value) if value in order else len(order), str(value)


def _sums(
    line: dict[Any, list[Values]], values: list[Any], at: int, errors: list[int]
) -> Iterator[int | None]:
    for value in values:
        rows = line.get(value, [])
        yield sum_of(row[at] for row in rows)
        yield next((row[error] for error in errors for row in rows if row[error]), None)
    yield sum_of(row[at] for rows in line.values() for row in rows)
