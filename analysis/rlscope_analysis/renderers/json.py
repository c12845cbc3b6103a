"""Renders an answer as JSON: its facts, and one row of its data per line."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rlscope_analysis.renderers.values import json_text, json_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlscope_analysis.result.table import Answer, Table


def render(answer: Answer) -> Iterator[str]:
    """Yield one object, piece by piece; what was not measured is null."""
    if answer.facts_hold_rows:
        yield from _object(answer.facts)
        return
    yield json_text(json_value(dict(answer.facts)))[:-1] + ', "rows": ['
    yield from _lines(answer.data.records())
    yield "\n]}\n"


def render_rows(table: Table) -> Iterator[str]:
    """Yield an array with one object per row."""
    names = _unique(column.name for column in table.columns)
    before = "["
    for line in _lines(dict(zip(names, row, strict=True)) for row in table.rows):
        yield f"{before}{line}"
        before = ""
    yield "[]\n" if before else "\n]\n"


def render_line(value: object) -> str:
    """Return one object in one line, of which more will come."""
    return json_text(json_value(value))


def _object(facts: Mapping[str, Any]) -> Iterator[str]:
    before = "{"
    for name, value in facts.items():
        yield f"{before}\n  {json_text(name)}: "
        yield from _pieces(value, "  ")
        before = ","
    yield "\n}\n"


def _pieces(value: object, indent: str) -> Iterator[str]:
    """Yield a value in one line, but for lists of objects in it, each of which has its own.

    No copy is made of all of it: there may be 100,000 threads.
    """
    if not _holds_objects(value):
        yield json_text(json_value(value))
    elif isinstance(value, dict):
        lists = {name: part for name, part in value.items() if _holds_objects(part)}
        rest = {name: part for name, part in value.items() if name not in lists}
        yield json_text(json_value(rest))[:-1]
        before = ", " if rest else ""
        for name, part in lists.items():
            yield f"{before}{json_text(str(name))}: "
            yield from _pieces(part, indent)
            before = ", "
        yield "}"
    elif isinstance(value, (list, tuple)):
        before = "["
        for part in value:
            yield f"{before}\n{indent}  "
            yield from _pieces(part, f"{indent}  ")
            before = ","
        yield f"\n{indent}]"


def _holds_objects(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_objects, value.values()))
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], dict)


def _lines(records: Iterator[dict[str, Any]]) -> Iterator[str]:
    before = ""
    for record in records:
        yield f"{before}\n{json_text(json_value(record))}"
        before = ","


def _unique(names: Iterator[str]) -> list[str]:
    """Tell columns of the same name apart: an object can hold each name once."""
    unique: list[str] = []
    for name in names:
        candidates = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
        unique.append(next(c for c in candidates if c not in unique))
    return unique
