"""Renders the result of a query as a table, JSON or CSV, piece by piece."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rlscope_analysis.text_table import Column, TextRow, format_table
from rlscope_analysis.wording import count_of, harmless_json, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlscope_analysis.query import Result


def table_chunks(result: Result, *, limit: int | None, is_terminal: bool) -> Iterator[str]:
    """Render at most `limit` rows (None: all), and say so where there are more."""
    columns = [
        Column(printable(name), is_number=is_number)
        for name, is_number in zip(result.columns, result.are_numbers, strict=True)
    ]
    if not columns:
        return
    rows = list(itertools.islice(result.rows, limit))
    cells = [TextRow([printable(_text(value, null="NULL")) for value in row]) for row in rows]
    # A row of one cell would count as a line across the table.
    padded = cells if len(columns) > 1 else [TextRow([*row.cells, ""]) for row in cells]
    if len(columns) == 1:
        columns.append(Column(""))
    yield format_table(columns, padded, is_terminal=is_terminal)
    more = limit is not None and next(result.rows, None) is not None
    if more:
        yield f"(the first {count_of(len(rows), 'row')}; all of them: --all, or --format csv)\n"
    else:
        yield f"({count_of(len(rows), 'row')})\n"


def csv_chunks(result: Result) -> Iterator[str]:
    """Render every row under a line of headings; NULL is an empty field."""
    return csv_lines(itertools.chain([result.columns], result.rows))


def json_chunks(result: Result) -> Iterator[str]:
    """Render an array with one object per row, one row per line."""
    names = _unique(result.columns)
    before = "["
    for row in result.rows:
        record = {name: json_value(value) for name, value in zip(names, row, strict=True)}
        yield f"{before}\n{json_text(record)}"
        before = ","
    yield "\n]\n" if before == "," else "[]\n"


def json_report(head: dict[str, Any], records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Render one object: what the head holds, and as "rows" the records, one per line."""
    yield json_text(head)[:-1] + ', "rows": ['
    before = ""
    for record in records:
        yield f"{before}\n{json_text(record)}"
        before = ","
    yield "\n]}\n"


def csv_lines(rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """Render rows as CSV, a line at a time; NULL is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_text(value, null="") for value in row])
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def _unique(names: tuple[str, ...]) -> list[str]:
    """Tell columns of the same name apart: an object can hold each name once."""
    unique: list[str] = []
    for name in names:
        candidates = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
        unique.append(next(c for c in candidates if c not in unique))
    return unique


def _text(value: object, *, null: str) -> str:
    if value is None:
        return null
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, dict)):
        return json_text(json_value(value))
    return value.hex() if isinstance(value, bytes) else str(value)


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON that is readable in any script and holds nothing that a terminal would obey."""
    return harmless_json(json.dumps(value, indent=indent, ensure_ascii=False))


def json_value(value: Any) -> Any:  # noqa: ANN401
    """Return what stands for a value of DuckDB in JSON."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, Decimal)):
        # JSON has neither NaN nor infinity.
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): json_value(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(part) for part in value]
    return value.hex() if isinstance(value, bytes) else str(value)
