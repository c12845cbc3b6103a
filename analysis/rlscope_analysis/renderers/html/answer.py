"""An answer as a page: what is said, then its tables, changes as bars too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.renderers.html.document import document
from rlscope_analysis.renderers.html.markup import Markup
from rlscope_analysis.renderers.html.tables import grid
from rlscope_analysis.renderers.selection import select
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.pivot import pivoted
from rlscope_analysis.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.renderers.html.markup import Html
    from rlscope_analysis.result.table import Answer, Table


def render(answer: Answer, *, limit: int | None) -> str:
    """Return one file of HTML, with at most `limit` rows of each table (None: all)."""
    m = Markup()
    said = [sentence_of(words) for words in answer.opening]
    said = [words for words in said if words]
    parts = [*_cut_off(m, answer), *_opening(m, said)]
    parts += [_table(m, table, limit, at) for at, table in enumerate(answer.tables)]
    closing = [sentence_of(words) for words in answer.closing]
    if closing:
        items = [m.tag("li", words) for words in closing if words]
        parts.append(m.section("Notes", m.tag("ul", *items, class_="limits"), id_="notes"))
    lines = [
        m.tag("li", f"{name}: ", sentence_of(said) if isinstance(said, Note) else said)
        for name, said in answer.head
    ]
    if lines:
        parts.append(m.section("The trace", m.tag("ul", *lines, class_="limits"), id_="trace"))
    return document(m, said[0] if said else "rlscope-trace", parts)


def _cut_off(m: Markup, answer: Answer) -> Iterator[Html]:
    if not answer.is_complete:
        yield m.tag("p", sentence_of(note("cut_off")), class_="bad")


def _opening(m: Markup, said: list[str]) -> Iterator[Html]:
    if said:
        yield m.tag("h1", said[0], class_="verdict")
    yield from (m.tag("p", words) for words in said[1:])


def _table(m: Markup, table: Table, limit: int | None, at: int) -> Html:
    table = pivoted(table, table.pivot) if table.pivot else table
    chosen = select(table, limit)
    more = None
    if chosen.hidden:
        more = f"{count_of(chosen.hidden, f'more {table.noun}')}: --all"
    title = table.title or table.name
    region = m.tag(
        "div", grid(m, table, chosen), class_="scroll", tabindex="0", role="region",
        aria_label=title,
    )  # fmt: skip
    remarks = [more, *(sentence_of(said) for said in (*table.remarks, *table.notes))]
    quiet = [m.tag("p", words, class_="quiet") for words in remarks if words]
    return m.section(title, region, *quiet, id_=f"table-{at}")
