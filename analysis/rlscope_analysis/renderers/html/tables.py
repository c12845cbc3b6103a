"""All numbers: the views as tables, each behind its title, with the command that prints it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.cells import cell, cells_of, grid_column, share_cell
from rlscope_analysis.renderers.selection import select
from rlscope_analysis.result.column import Role, Unit
from rlscope_analysis.result.pivot import pivoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rlscope_analysis.renderers.html.markup import Html, Markup
    from rlscope_analysis.renderers.selection import Selection
    from rlscope_analysis.result.page import Page, PageTable
    from rlscope_analysis.result.table import Table, Values

_MOST_ROWS = 60
# Of all tables together, so that a page stays small whatever the trace.
_MOST_BYTES = 700_000
_EXACT = (Unit.NS, Unit.SHARE, Unit.COUNT, Unit.RATE)


def tables(m: Markup, page: Page) -> Html:
    """Return every table that fits."""
    shown, size = [], 0
    for found in page.tables:
        # Those that come later shorter, if need be.
        most = _MOST_ROWS if size < _MOST_BYTES // 2 else 10
        drawn = _table(m, page, found, most if size < _MOST_BYTES else 0)
        size += len(drawn)
        shown.append(drawn)
    return m.section("All numbers", *shown, aside="the same views as summarize has", id_="numbers")


def command_of(page: Page, found: PageTable) -> list[str]:
    """Return the words of the command that prints what a table of a page holds."""
    words = ["rlscope-trace", found.command, page.trace]
    return [*words, *shlex.split(found.options), *found.asked]


def _table(m: Markup, page: Page, found: PageTable, most: int) -> Html:
    command = m.tag("p", m.command(command_of(page, found)))
    name = found.options.split()[-1].replace("-", " ")
    name = f"explain: {name} iteration" if found.command == "explain" else name
    table = found.table
    if table is None or not list(table.rows):
        why = found.reason if table is None else "no rows"
        return m.tag("details", m.tag("summary", name, m.tag("small", f" {why}")), command)
    table = pivoted(table, table.pivot) if table.pivot else table
    chosen = select(replace(table, groups=(), rank=None), most)
    region = m.tag("div", grid(m, table, chosen), class_="scroll", tabindex="0", role="region",
                   aria_label=f"{name}: {table.title}")  # fmt: skip
    hidden = len(list(table.rows)) - most
    more = f"{hidden:,} more rows, in the total where there is one." if hidden > 0 else None
    return m.tag(
        "details",
        m.tag("summary", name, m.tag("small", f" {table.title}")),
        command,
        region,
        m.tag("p", more, class_="quiet") if more else None,
        *(m.tag("p", sentence_of(said), class_="quiet") for said in (*table.remarks, *table.notes)),
        data_view=found.options,
    )


def grid(m: Markup, table: Table, chosen: Selection, bars: Sequence[Html] | None = None) -> Html:
    """Return the chosen rows of a table, with its total; bars: what stands at the end of each."""
    columns = [column for column in table.columns if column.role is Role.SHOWN]
    head = []
    for column in columns:
        said = grid_column(column, has_unit=not table.title_has_units)
        head.append(m.tag("th", said.heading, scope="col", class_="n" if said.is_number else None))
        if column.share_of is not None:
            head.append(m.tag("th", "%", scope="col", class_="n quiet"))
    if bars is not None:
        head.append(m.tag("th", "less, more", scope="col", class_="change"))
    rows: list[Html] = []
    cells = partial(_cells, m, table, cells_of(table))
    left = iter(bars or ())
    for group in chosen.groups:
        if isinstance(group.head, tuple):
            rows.append(m.tag("tr", *cells(group.head), class_="group"))
        elif group.head is not None:
            words = m.tag("th", cell(table.columns[0], group.head), scope="colgroup",
                          colspan=len(head))  # fmt: skip
            rows.append(m.tag("tr", words))
        for row in group.rows:
            bar = m.tag("td", next(left)) if bars is not None else None
            rows.append(m.tag("tr", *cells(row), bar))
    foot = None
    if table.total is not None:
        bar = m.tag("td") if bars is not None else None
        foot = m.tag("tfoot", m.tag("tr", *cells(table.total), bar))
    return m.tag("table", m.tag("thead", m.tag("tr", *head)), m.tag("tbody", *rows), foot)


def _cells(
    m: Markup, table: Table, written: Callable[[Values, int], str], row: Values
) -> Iterator[Html]:
    places = {column.name: at for at, column in enumerate(table.columns)}
    depth = row[places[table.depth]] if table.depth else 0
    inside = "  " * depth if isinstance(depth, int) else ""
    for at, column in enumerate(table.columns):
        if column.role is not Role.SHOWN:
            continue
        is_number = grid_column(column).is_number
        exact = row[at] if column.unit in _EXACT and isinstance(row[at], (int, float)) else None
        words = inside + written(row, at)
        inside = ""
        # What is cut there stands in full where one points at it.
        full = row[at] if words.endswith("...") and isinstance(row[at], str) else None
        yield m.tag("td", words, class_="n" if is_number else None, data_v=exact, title=full)
        if column.share_of is not None:
            error = row[places[column.share_error]] if column.share_error in places else None
            share = share_cell(row[at], row[places[column.share_of]], error)
            yield m.tag("td", share, class_="n quiet")
