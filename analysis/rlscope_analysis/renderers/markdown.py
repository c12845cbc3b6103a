"""Renders an answer as Markdown: for a comment of a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.cells import cells_of, grid_column
from rlscope_analysis.renderers.selection import select
from rlscope_analysis.result.column import Role
from rlscope_analysis.result.note import Note
from rlscope_analysis.wording import count_of, harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.result.table import Answer, Table, Values

# What Markdown, or the HTML in it, would take for more than text.
_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@])")


def render(answer: Answer, *, limit: int | None) -> Iterator[str]:
    """Yield the head, and each table with at most `limit` rows (None: all)."""
    for name, said in answer.head:
        yield f"{name}: {_text(said)}\n\n"
    for said in answer.opening:
        yield f"{_text(said)}\n\n"
    for table in answer.tables:
        yield from _table(table, limit)
    for said in answer.closing:
        yield f"{_text(said)}\n\n"


def _text(said: str | Note) -> str:
    return _escaped(sentence_of(said) if isinstance(said, Note) else said)


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\1", harmless(text).replace("\n", " "))


def _table(table: Table, limit: int | None) -> Iterator[str]:
    shown = [at for at, column in enumerate(table.columns) if column.role is Role.SHOWN]
    columns = [grid_column(table.columns[at]) for at in shown]
    if table.title:
        yield f"**{_escaped(table.title)}**\n\n"
    yield _line(_escaped(column.heading) for column in columns)
    yield _line("---:" if column.is_number else "---" for column in columns)

    written = cells_of(table)

    def row_line(row: Values) -> str:
        return _line(_escaped(written(row, at)) for at in shown)

    chosen = select(table, limit)
    for group in chosen.groups:
        yield from map(row_line, group.rows)
    if table.total is not None:
        yield row_line(table.total)
    yield "\n"
    if chosen.hidden:
        yield f"{count_of(chosen.hidden, f'more {table.noun}')}: --all\n\n"


def _line(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
