"""All numbers: the views as tables, each behind its title, with the command that prints it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.cells import cell, grid_column, share_cell
from rlscope_analysis.result.column import Role, Unit
from rlscope_analysis.result.pivot import pivoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.renderers.html.markup import Html, Markup
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


def _table(m: Markup, page: Page, found: PageTable, most: int) -> Html:
    words = ["rlscope-trace", found.command, page.trace, *shlex.split(found.options)]
    command = m.tag("p", m.tag("code", shlex.join(words)))
    name = found.options.split()[-1].replace("-", " ")
    name = f"explain: {name} iteration" if found.command == "explain" else name
    table = found.table
    if table is None or not list(table.rows):
        why = found.reason if table is None else "no rows"
        return m.tag("details", m.tag("summary", name, m.tag("small", f" {why}")), command)
    table = pivoted(table, table.pivot) if table.pivot else table
    region = m.tag("div", _grid(m, table, most), class_="scroll", tabindex="0", role="region",
                   aria_label=table.title or name)  # fmt: skip
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


def _grid(m: Markup, table: Table, most: int) -> Html:
    columns = [column for column in table.columns if column.role is Role.SHOWN]
    head = []
    for column in columns:
        said = grid_column(column, has_unit=not table.title_has_units)
        head.append(m.tag("th", said.heading, scope="col", class_="n" if said.is_number else None))
        if column.share_of is not None:
            head.append(m.tag("th", "%", scope="col", class_="n"))
    rows = [m.tag("tr", *_cells(m, table, row)) for row in list(table.rows)[:most]]
    foot = None
    if table.total is not None:
        foot = m.tag("tfoot", m.tag("tr", *_cells(m, table, table.total)))
    return m.tag("table", m.tag("thead", m.tag("tr", *head)), m.tag("tbody", *rows), foot)


def _cells(m: Markup, table: Table, row: Values) -> Iterator[Html]:
    places = {column.name: at for at, column in enumerate(table.columns)}
    for at, column in enumerate(table.columns):
        if column.role is not Role.SHOWN:
            continue
        is_number = grid_column(column).is_number
        exact = row[at] if column.unit in _EXACT and isinstance(row[at], (int, float)) else None
        yield m.tag("td", cell(column, row[at]), class_="n" if is_number else None, data_v=exact)
        if column.share_of is not None:
            error = row[places[column.share_error]] if column.share_error in places else None
            share = share_cell(row[at], row[places[column.share_of]], error)
            yield m.tag("td", share, class_="n quiet")
