"""Renders an answer as JSON: its facts, and one row of its data per line."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rlscope_analysis.renderers.values import json_text, json_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.result.table import Answer, Table


def render(answer: Answer) -> Iterator[str]:
    """Yield one object, piece by piece; what was not measured is null."""
    facts = json_value(dict(answer.facts))
    if answer.facts_hold_rows:
        yield json_text(facts, indent=2) + "\n"
        return
    yield json_text(facts)[:-1] + ', "rows": ['
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
