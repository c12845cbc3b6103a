"""Values as people read them: the cells and headings of a table of text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlscope_analysis.note_sentences import part_words, sentence_of, words_of
from rlscope_analysis.renderers.grid import NO_BREAK, GridColumn
from rlscope_analysis.renderers.values import plain_text
from rlscope_analysis.result.column import Column, Scale, Unit
from rlscope_analysis.result.names import ProcessName, ThreadName
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.table import NO_VALUE
from rlscope_analysis.wording import percent, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlscope_analysis.result.table import Table, Values

_AS_IN_DATABASE = (Unit.DATABASE_VALUE, Unit.DATABASE_NUMBER)
_LEFT = (Unit.TEXT, Unit.RANKING, Unit.DATABASE_VALUE)
_HEADING_UNITS = {Unit.NS: "ms", Unit.SHARE: "%"}
_PER = {
    None: (1e6, 3), Scale.SHORT_MS: (1e6, 2), Scale.US: (1e3, 1), Scale.TWO_DIGITS: (1, 2),
    Scale.WHOLE: (1, 0),
}  # fmt: skip
_UNKNOWN = "-"


def grid_column(column: Column, *, has_unit: bool = True) -> GridColumn:
    """Return how a column is laid out, and its heading, with its unit if nothing else tells it."""
    name = column.words if column.heading is None else sentence_of(column.heading)
    words = [name, _HEADING_UNITS.get(column.unit, "") if has_unit else ""]
    heading = " ".join(filter(None, words))
    return GridColumn(printable(heading), is_number=column.unit not in _LEFT)


def cells_of(table: Table) -> Callable[[Values, int], str]:
    """Return what writes the value of a row at a place: alone, or with others of the row."""
    places = {column.name: at for at, column in enumerate(table.columns)}
    beside = {
        at: [(name, places[name]) for name in column.said.columns]
        for at, column in enumerate(table.columns)
        if column.said is not None
    }

    def write(row: Values, at: int) -> str:
        column, value = table.columns[at], row[at]
        if column.said is not None and (value is None or isinstance(value, (str, list))):
            others = {name: row[place] for name, place in beside[at]}
            # A row that adds up others has no name that could be told.
            if NO_VALUE not in others.values():
                words = sentence_of(note(column.said.code, value=value, **others))
                return _shortened(words, column.most)
        return cell(column, value)

    return write


def cell(column: Column, value: object) -> str:
    """Write a value alone: - if it was not measured, nothing if there can be none."""
    if value is NO_VALUE:
        return ""
    if column.unit in _AS_IN_DATABASE:
        return printable(plain_text(value, null="NULL"))
    if value is None:
        return _UNKNOWN
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _words(column, value)
    if column.unit is Unit.ID:
        return str(value)
    if column.unit is Unit.SHARE:
        return f"{value * 100:.1f}"
    if column.unit is Unit.NS or column.scale:
        size, digits = _PER[column.scale]
        return f"{value / size:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def share_cell(value: object, whole: object, error: object = None) -> str:
    """Write a value in % of another one, if both are known, and its standard error likewise."""
    if NO_VALUE in (value, whole):
        return ""
    if not (isinstance(value, int) and isinstance(whole, int)):
        return _UNKNOWN
    share = percent(value, whole)
    if isinstance(error, int) and error and whole:
        share += f" ± {error / whole * 100:.1f}"
    return share


def _words(column: Column, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Note):
        return printable(sentence_of(value))
    if column.unit is Unit.RANKING and isinstance(value, tuple):
        return ", ".join(part_words(part).replace(" ", NO_BREAK) for part in value)
    if isinstance(value, ProcessName):
        return words_of(replace(value, name=value.name and _shortened(value.name, column.most)))
    if isinstance(value, ThreadName):
        return words_of(value)
    return _shortened(str(value), column.most)


def _shortened(name: str, most: int | None) -> str:
    """Write a name on one line, its beginning if it is long."""
    text = printable(name)
    return text if most is None or len(text) <= most else f"{text[: most - 3]}..."
