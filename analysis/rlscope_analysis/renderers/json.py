"""Renders an answer as JSON: its facts, and one row of its data per line."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlscope_analysis.renderers.values import json_text, json_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.result.table import Answer, Table

# So deep an object has lines of its own: in that of a summary each thread of each process.
_DEPTH = 4


def render(answer: Answer) -> Iterator[str]:
    """Yield one object, piece by piece; what was not measured is null."""
    if answer.facts_hold_rows:
        yield from _pieces(answer.facts)
        yield "\n"
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


def _pieces(value: object, depth: int = 0) -> Iterator[str]:
    """Yield a value over several lines, without making a copy of all of it."""
    parts = _parts(value) if depth < _DEPTH else []
    if not parts:
        yield json_text(json_value(value))
        return
    opening, closing = "[]" if isinstance(value, (list, tuple)) else "{}"
    before = opening
    for name, part in parts:
        yield f"{before}\n{'  ' * (depth + 1)}{name}"
        yield from _pieces(part, depth + 1)
        before = ","
    yield f"\n{'  ' * depth}{closing}"


def _parts(value: object) -> list[tuple[str, Any]]:
    """Return what a list or an object is made of, each with its name before it; of others nothing."""
    if isinstance(value, (list, tuple)):
        return [("", part) for part in value]
    if isinstance(value, Mapping):
        return [(f"{json_text(str(name))}: ", part) for name, part in value.items()]
    return []


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
