"""Renders an answer for people: what there is to say of the trace, then its tables."""

from __future__ import annotations

import itertools
import re
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.cells import cell, cells_of, grid_column, share_cell
from rlscope_analysis.renderers.grid import GridColumn, GridRow, format_grid
from rlscope_analysis.renderers.selection import Selection, select
from rlscope_analysis.result.column import Column, Role, Unit
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.pivot import pivoted
from rlscope_analysis.wording import count_of, harmless, percent, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rlscope_analysis.result.table import Answer, Table, Values

# A pipe or a file has no width; nothing has to wrap for it before this.
WIDTH_ELSEWHERE = 160
# Longer lines are hard to read, and do not fit most terminals.
_PROSE_WIDTH = 100
# What makes text bold.
_STYLE = re.compile("\x1b\\[[0-9;]*m")


def render(
    answer: Answer,
    *,
    limit: int | None,
    width: int = WIDTH_ELSEWHERE,
    is_terminal: bool = False,
) -> str:
    """Render the head and every table, each with at most `limit` rows (None: all).

    Lines are as wide as the numbers need, also where that is more than `width`; but of an answer
    that has a number of lines, which is one screen.
    """
    shown = _whole(answer, limit=limit, width=width, is_terminal=is_terminal)
    if answer.lines is None:
        return shown
    while answer.shorter is not None and not _fits(shown, answer.lines):
        answer = replace(answer.shorter, lines=answer.lines)
        shown = _whole(answer, limit=limit, width=width, is_terminal=is_terminal)
    return shown if _fits(shown, answer.lines or 0) else _cut(shown, answer.lines or 0)


def _fits(shown: str, lines: int) -> bool:
    found = _STYLE.sub("", shown).splitlines()
    return len(found) <= lines and max(map(len, found), default=0) <= _PROSE_WIDTH


def _cut(shown: str, lines: int) -> str:
    """Leave out what comes before the last line, and the ends of lines that are too wide."""
    found = _STYLE.sub("", shown).splitlines()
    if len(found) > lines:
        left_out = count_of(len(found) - lines + 2, "line")
        found = [*found[: lines - 2], f"({left_out} more: --all)", found[-1]]
    kept = [
        line if len(line) <= _PROSE_WIDTH else f"{line[: _PROSE_WIDTH - 3]}..." for line in found
    ]
    return "".join(f"{line}\n" for line in kept)


def _whole(answer: Answer, *, limit: int | None, width: int, is_terminal: bool) -> str:
    head = "".join(f"{line}\n" for line in _head_lines(answer))
    head += "".join(_lines(answer.opening))
    tables = [
        render_table(table, limit=limit, width=width, is_terminal=is_terminal)
        for table in answer.tables
    ]
    foot = ["".join(_lines(answer.closing))] if answer.closing else []
    return "\n".join([*([head] if head else []), *tables, *foot])


def _lines(notes: Iterable[Note]) -> Iterator[str]:
    for said in notes:
        words = harmless(sentence_of(said))
        yield "".join(f"{line}\n" for line in textwrap.wrap(words, _PROSE_WIDTH) or [""])


def render_table(
    table: Table,
    *,
    limit: int | None,
    width: int = WIDTH_ELSEWHERE,
    is_terminal: bool = False,
) -> str:
    """Render one table, with what there is to say of it."""
    if table.pivot:
        table = pivoted(table, table.pivot)
    chosen = select(table, limit)
    columns, rows = _columns(table), list(_rows(table, chosen))
    hidden = 0 if table.left_out_of else chosen.hidden
    wrap_at = width if _shown(table)[-1].unit is Unit.RANKING else None
    text = format_grid(columns, rows, is_terminal=is_terminal, wrap_at=wrap_at)
    if hidden:
        more = count_of(hidden, f"more {table.noun}")
        more += ", in the total" * (table.total is not None)
        text += f"({more}; all of them: --all)\n"
    said = [sentence_of(note("errors_of_samples"))] if _has_errors(table, chosen) else []
    said += [sentence_of(remark) for remark in table.remarks]
    said += [f"note: {sentence_of(limits)}" for limits in table.notes]
    return "".join(
        [f"{table.title}\n" if table.title else "", text, *(f"{line}\n" for line in said)]
    )


def stream_rows(table: Table, *, limit: int | None, is_terminal: bool = False) -> Iterator[str]:
    """Render at most `limit` rows (None: all) of a result, and say so where there are more."""
    if not table.columns:
        return
    left = iter(table.rows)
    rows = [
        GridRow([cell(*pair) for pair in zip(table.columns, row, strict=True)])
        for row in itertools.islice(left, limit)
    ]
    yield format_grid(list(map(grid_column, table.columns)), rows, is_terminal=is_terminal)
    more = limit is not None and next(left, None) is not None
    if more:
        yield f"(the first {count_of(len(rows), 'row')}; all of them: --all, or --format csv)\n"
    else:
        yield f"({count_of(len(rows), 'row')})\n"


def _head_lines(answer: Answer) -> Iterable[str]:
    if not answer.is_complete:
        yield f"warning: {sentence_of(note('cut_off'))}"
    for name, said in answer.head:
        words = harmless(sentence_of(said)) if isinstance(said, Note) else printable(said)
        yield f"{name:<10} {words}"


def _has_errors(table: Table, chosen: Selection) -> bool:
    errors = [table.place(column.share_error) for column in table.columns if column.share_error]
    return any(row[at] for group in chosen.groups for row in group.rows for at in errors)


def _columns(table: Table) -> list[GridColumn]:
    columns = []
    for column in _shown(table):
        columns.append(grid_column(column, has_unit=not table.title_has_units))
        columns += [GridColumn("%", is_number=True, gap=1)] * (column.share_of is not None)
    return columns


def _shown(table: Table) -> list[Column]:
    return [column for column in table.columns if column.role is Role.SHOWN]


def _rows(table: Table, chosen: Selection) -> Iterable[GridRow]:
    depth_at = None if table.depth is None else table.place(table.depth)
    cells = _writer(table)
    for group in chosen.groups:
        if isinstance(group.head, tuple):
            yield GridRow(cells(group.head), is_bold=True)
        elif group.head is not None:
            yield GridRow([cell(table.columns[0], group.head)], is_across=True)
        for row in group.rows:
            depth = 0 if depth_at is None else row[depth_at]
            first, *rest = cells(row)
            yield GridRow(["  " * depth + first, *rest])
        if table.left_out_of and group.hidden:
            words = f"  ... {count_of(len(group.hidden), f'more {table.noun}')}"
            yield _left_out(table, words, group.hidden)
    if table.left_out_of and chosen.hidden_groups:
        rows = [row for group in chosen.hidden_groups for row in group]
        words = f"... {count_of(len(chosen.hidden_groups), f'more {table.group_noun}')} with"
        yield _left_out(table, f"{words} {count_of(len(rows), table.noun)}", rows)
    if table.total is not None:
        yield GridRow(cells(table.total), is_bold=True)
    if table.law is not None:
        yield GridRow(cells(table.law))


def _writer(table: Table) -> Callable[[Values], list[str]]:
    """Return what writes the cells of a row."""
    places: dict[str | None, int] = {column.name: at for at, column in enumerate(table.columns)}
    shown = [
        (places[column.name], places.get(column.share_of), places.get(column.share_error))
        for column in _shown(table)
    ]
    written = cells_of(table)

    def cells(row: Values) -> list[str]:
        texts = []
        for at, whole, error in shown:
            texts.append(written(row, at))
            if whole is not None:
                stderr = None if error is None else row[error]
                texts.append(share_cell(row[at], row[whole], stderr))
        return texts

    return cells


def _left_out(table: Table, words: str, rows: Sequence[Values]) -> GridRow:
    """Tell of rows that are not shown, with their part of the total."""
    at = table.place(table.left_out_of or "")
    part = percent(sum(row[at] for row in rows), table.total[at] if table.total else 0)
    return GridRow([f"{words}, {part} % of {table.columns[at].words} (--all)"], is_across=True)
