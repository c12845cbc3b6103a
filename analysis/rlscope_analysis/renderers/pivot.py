"""Lays out one line per label, with a column and its % for each value of the pivot."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlscope_analysis.renderers.cells import cell, grid_column, share_cell
from rlscope_analysis.renderers.grid import GridColumn, GridRow
from rlscope_analysis.result.column import Column, Role, Scale, Unit
from rlscope_analysis.result.table import sum_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.result.table import Pivot, Table, Values

_TOTAL = "total"
_VALUE = Column(_TOTAL, Unit.NS, scale=Scale.SHORT_MS)


@dataclass(frozen=True, slots=True)
class PivotGrid:
    """What stands in the grid, and how many lines are left out of it."""

    columns: list[GridColumn]
    rows: list[GridRow]
    hidden: int


def pivoted(table: Table, pivot: Pivot, limit: int | None) -> PivotGrid:
    """Lay out at most `limit` lines (None: all), and one that adds up all of them."""
    rows = list(table.rows)
    over, at = table.place(pivot.over), table.place(pivot.value)
    labels = [
        place
        for place, column in enumerate(table.columns)
        if column.role is Role.SHOWN and place not in {over, at}
    ]
    keys = [place for place, column in enumerate(table.columns) if column.role is Role.KEY]
    lines: dict[Values, dict[Any, list[Values]]] = defaultdict(lambda: defaultdict(list))
    whole: dict[Any, list[Values]] = defaultdict(list)
    for row in rows:
        lines[tuple(row[place] for place in (*labels, *keys))][row[over]].append(row)
        whole[row[over]].append(row)
    values = sorted(whole, key=lambda value: _rank(pivot, value))
    columns = [grid_column(table.columns[place]) for place in labels]
    for value in values:
        heading = cell(table.columns[over], value)
        columns += [GridColumn(heading, is_number=True), GridColumn("%", is_number=True, gap=1)]
    columns.append(GridColumn(_TOTAL, is_number=True))
    errors = [place for place, column in enumerate(table.columns) if column.role is Role.ERROR]
    listed = list(lines.items())[:limit]
    shown = [
        GridRow(
            [cell(table.columns[place], part) for place, part in zip(labels, label, strict=False)]
            + _cells(values, held, at, errors)
        )
        for label, held in listed
    ]
    if lines:
        head = [_TOTAL, *[""] * (len(labels) - 1)]
        shown.append(GridRow([*head, *_cells(values, whole, at, [])], is_bold=True))
    return PivotGrid(columns, shown, len(lines) - len(listed))


def _rank(pivot: Pivot, value: object) -> tuple[int, str]:
    order = pivot.order
    return order.index(value) if value in order else len(order), str(value)


def _cells(
    values: Sequence[Any], held: dict[Any, list[Values]], at: int, errors: Sequence[int]
) -> list[str]:
    sums = {value: sum_of(row[at] for row in held.get(value, [])) for value in values}
    total = sum_of(sums.values())
    cells = []
    for value in values:
        stderr = next((row[at] for at in errors for row in held.get(value, []) if row[at]), 0)
        error = f" ± {stderr / total * 100:.1f}" if stderr and total else ""
        cells += [cell(_VALUE, sums[value]), share_cell(sums[value], total) + error]
    return [*cells, cell(_VALUE, total)]
