"""An answer as a page: what is said of it, then its tables. A change has a bar beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.html.document import document
from rlscope_analysis.renderers.html.markup import Markup
from rlscope_analysis.renderers.html.tables import grid
from rlscope_analysis.renderers.html.words import place
from rlscope_analysis.renderers.selection import select
from rlscope_analysis.result.note import Note
from rlscope_analysis.result.pivot import pivoted
from rlscope_analysis.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlscope_analysis.renderers.html.markup import Html
    from rlscope_analysis.result.table import Answer, Table

# Of each table, also with all asked for: so that a page stays small whatever the trace.
MOST_ROWS = 300
# Left of the middle is less, right of it more.
_CHANGE = "change_ns"


def render(answer: Answer, *, limit: int | None, hide: Callable[[str], str] = str) -> str:
    """Return a file of HTML; of each table at most `limit` rows (None: MOST_ROWS).

    hide: what makes text of a trace fit to be shown to anybody.
    """
    m = Markup(hide)
    said = [_words(one) for one in answer.opening]
    about = " · ".join(f"{name}: {_words(one)}" for name, one in answer.head)
    title = said[0] if said else about or answer.data.title or "rlscope-trace"
    parts = [
        m.tag(
            "header",
            m.tag("div", m.tag("p", about, class_="about") if about else None),
            m.tag("div", m.tag("button", "light / dark", id="theme", class_="badge",
                               type="button", hidden=True), class_="badges"),
        ),
        m.tag("h1", title, class_="verdict", id="verdict"),
        *(m.tag("p", line, class_="about") for line in said[1:]),
        *(_table(m, table, limit, at) for at, table in enumerate(answer.tables)),
        *(m.tag("p", _words(one), class_="quiet closing") for one in answer.closing),
        m.tag("footer", m.tag("p", "Made by rlscope-trace. It asks no server for anything.")),
    ]  # fmt: skip
    return document(m, title, parts)


def _words(said: str | Note) -> str:
    return sentence_of(said) if isinstance(said, Note) else said


def _table(m: Markup, table: Table, limit: int | None, at: int) -> Html:
    table = pivoted(table, table.pivot) if table.pivot else table
    chosen = select(table, limit or MOST_ROWS)
    rows = [row for group in chosen.groups for row in group.rows]
    bars = _bars(m, table, rows)
    region = m.tag("div", grid(m, table, chosen, bars), class_="scroll all", tabindex="0",
                   role="region", aria_label=table.title or table.name)  # fmt: skip
    hidden = count_of(chosen.hidden, f"more {table.noun}")
    where = "the same command with --all" if limit else "not on a page; --format table has them"
    more = f"{hidden}: {where}" if chosen.hidden else None
    return m.section(
        table.title or table.name,
        region,
        m.tag("p", more, class_="quiet") if more else None,
        *(m.tag("p", _words(said), class_="quiet") for said in (*table.remarks, *table.notes)),
        id_=f"table-{at}",
    )


def _bars(m: Markup, table: Table, rows: list[tuple[object, ...]]) -> list[Html] | None:
    """Return a bar for each row of a table of changes; None: it is none."""
    if all(column.name != _CHANGE for column in table.columns):
        return None
    column = table.place(_CHANGE)
    changes = [value if isinstance(value := row[column], (int, float)) else 0 for row in rows]
    largest = max(map(abs, changes), default=0) or 1
    return [
        m.tag(
            "svg",
            m.tag("rect", x=place(0.5 - max(0, -part) / 2), width=place(abs(part) / 2), y="1",
                  height="12", class_="queue" if part > 0 else "f1"),
            m.tag("line", x1="50%", x2="50%", y1="0", y2="14", class_="middle"),
            class_="change", aria_hidden="true",
        )
        for part in (change / largest for change in changes)
    ]  # fmt: skip
