"""Lays out a table of text that never cuts a number: columns are as wide as what they hold."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
# Stands between words that must stay on one line; a space once the lines are made.
NO_BREAK = "\xa0"
# Narrower than this, a column that wraps is one of single words.
_LEAST_WIDTH = 30


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
    wrap_at: int | None = None,
) -> str:
    """Format the rows under their headings; the last column wraps at `wrap_at`, if given."""
    rows = [GridRow([column.heading for column in columns], is_bold=True), *rows]
    lines = _lines(columns, [row.cells for row in rows if not row.is_across], wrap_at)
    return "".join(
        f"{BOLD}{line}{PLAIN}\n" if is_terminal and row.is_bold else f"{line}\n"
        for row in rows
        for line in ([_in_one_line(row.cells[0])] if row.is_across else next(lines))
    )


def _lines(
    columns: Sequence[GridColumn], rows: Sequence[Sequence[str]], wrap_at: int | None
) -> Iterator[list[str]]:
    """Yield the lines of each row: those after the first hold more of the last column."""
    lines = [""] * len(rows)
    # By column, each of which is of one kind: there may be 100,000 rows.
    for at, column in enumerate(columns):
        gap = " " * column.gap if at else ""
        cells = [_in_one_line(row[at]) for row in rows]
        if wrap_at is not None and at == len(columns) - 1:
            yield from _wrapped([f"{line}{gap}" for line in lines], cells, wrap_at)
            return
        cells = _padded(cells, is_number=column.is_number)
        lines = [f"{line}{gap}{cell}" for line, cell in zip(lines, cells, strict=True)]
    yield from ([line.rstrip()] for line in lines)


def _padded(cells: Sequence[str], *, is_number: bool) -> list[str]:
    """Make all cells as wide as the widest."""
    widths = list(map(_width, cells))
    most = max(widths)
    pad = str.rjust if is_number else str.ljust
    return [pad(cell, most - width + len(cell)) for cell, width in zip(cells, widths, strict=True)]


def _wrapped(starts: Sequence[str], cells: Sequence[str], wrap_at: int) -> Iterator[list[str]]:
    """Yield the lines of each row whose last cell goes over several; words are not broken."""
    indent = " " * _width(starts[0])
    most = max(wrap_at - len(indent), _LEAST_WIDTH)
    for start, cell in zip(starts, cells, strict=True):
        parts = [cell]
        if _width(cell) > most:
            parts = textwrap.wrap(cell, most, break_long_words=False)
        first, *rest = (part.replace(NO_BREAK, " ") for part in parts)
        yield [f"{start}{first}".rstrip(), *(indent + part for part in rest)]


def _in_one_line(cell: str) -> str:
    """Escape what would leave the cell, or reach the terminal as a command."""
    return cell if cell.isprintable() else NO_BREAK.join(map(printable, cell.split(NO_BREAK)))


def _width(cell: str) -> int:
    # Numbers, which most cells are: as wide as they are long.
    return len(cell) if cell.isascii() else cell_len(cell)
