"""Renders the data of an answer as CSV: every row under a line of headings."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from rlscope_analysis.renderers.values import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_analysis.result.table import Table


def render(table: Table) -> Iterator[str]:
    """Yield a line at a time; what was not measured is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    yield text.getvalue()
    for row in table.rows:
        text.seek(0)
        text.truncate()
        writer.writerow([plain_text(value, null="") for value in row])
        yield text.getvalue()
