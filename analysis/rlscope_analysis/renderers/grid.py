"""Lays out a table of text that never cuts a number: columns are as wide as what they hold."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len

from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
# Stands between words that must stay on one line; a space once the lines are made.
NO_BREAK = "\xa0"


@dataclass(frozen=True, slots=True)
class GridColumn:
    """How one column looks; `gap` is the space before it."""

    heading: str
    is_number: bool = False
    gap: int = 2


@dataclass(frozen=True, slots=True)
class GridRow:
    """The cells of one line, or one across all columns."""

    cells: Sequence[str]
    is_bold: bool = False
    is_across: bool = False


def format_grid(
    columns: Sequence[GridColumn],
    rows: Sequence[GridRow],
    *,
    is_terminal: bool = False,
    last_width: int | None = None,
) -> str:
    """Format the rows under their headings; the last column wraps at `last_width`, if given."""
    rows = [replace(row, cells=list(map(_in_one_line, row.cells))) for row in rows]
    heading = GridRow([_in_one_line(column.heading) for column in columns], is_bold=True)
    widths = [cell_len(cell) for cell in heading.cells]
    for row in rows:
        if not row.is_across:
            widths = [max(pair) for pair in zip(widths, map(cell_len, row.cells), strict=True)]
    if last_width is not None:
        widths[-1] = min(widths[-1], last_width)
    lines: list[str] = []
    for row in (heading, *rows):
        lines += (
            f"{BOLD}{line}{PLAIN}" if is_terminal and row.is_bold else line
            for line in _row_lines(columns, widths, row, wraps=last_width is not None)
        )
    return "".join(f"{line}\n" for line in lines)


def _in_one_line(cell: str) -> str:
    """Escape what would leave the cell, or reach the terminal as a command."""
    return cell if cell.isprintable() else NO_BREAK.join(map(printable, cell.split(NO_BREAK)))


def width_before_last(columns: Sequence[GridColumn], rows: Iterable[GridRow]) -> int:
    """Return the width that all columns but the last need."""
    total = columns[-1].gap
    cells = [row.cells for row in rows if not row.is_across]
    for index, column in enumerate(columns[:-1]):
        total += max([cell_len(column.heading), *(cell_len(row[index]) for row in cells)])
        total += column.gap if index else 0
    return total


def _row_lines(
    columns: Sequence[GridColumn], widths: Sequence[int], row: GridRow, *, wraps: bool
) -> Iterable[str]:
    if row.is_across:
        yield row.cells[0]
        return
    last = [row.cells[-1]]
    if wraps:
        wrapped = textwrap.wrap(row.cells[-1], widths[-1], break_long_words=False) or [""]
        last = [part.replace(NO_BREAK, " ") for part in wrapped]
    line = "".join(
        _padded(column, width, cell, is_first=index == 0)
        for index, (column, width, cell) in enumerate(
            zip(columns, widths, [*row.cells[:-1], last[0]], strict=True)
        )
    )
    yield line.rstrip()
    indent = sum(widths[:-1]) + sum(column.gap for column in columns[1:])
    for rest in last[1:]:
        yield " " * indent + rest


def _padded(column: GridColumn, width: int, cell: str, *, is_first: bool) -> str:
    padding = " " * (width - cell_len(cell))
    text = padding + cell if column.is_number else cell + padding
    return text if is_first else " " * column.gap + text
