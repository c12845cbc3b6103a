"""The columns and cells that the tables of operations share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.text_table import Column
from rlscope_analysis.wording import count_of, percent, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.operations.iteration import Row

_NAME_LENGTH = 60


def shortened(name: str) -> str:
    """Write a name on one line, its beginning if it is long."""
    text = printable(name)
    return text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 3]}..."


def process_name(row: Row) -> str:
    """Name a process by name and pid."""
    pid = "not known" if row["pid"] is None else row["pid"]
    return f"{printable(row['name'] or '(no name)')} (pid {pid})"


def number_column(heading: str) -> Column:
    """Return a column of numbers."""
    return Column(heading, is_number=True)


def share_column() -> Column:
    """Return the column of the percentages of the one before."""
    return Column("%", is_number=True, gap=1)


def quantile_columns() -> list[Column]:
    """Return the columns that `quantile_cells` fills."""
    return [number_column("mean ms"), number_column("p50 ms"), number_column("p99 ms")]


def quantile_cells(row: Row) -> list[str]:
    """Write mean, p50 and p99."""
    return [ms_cell(row[name]) for name in ("mean_ns", "p50_ns", "p99_ns")]


def ms_cell(time_ns: float | None) -> str:
    """Write a time in ms; - if it is not known."""
    return "-" if time_ns is None else f"{time_ns / 1e6:,.3f}"


def blank_cells(cells: Sequence[str]) -> list[str]:
    """Return as many empty cells."""
    return ["" for _ in cells]


def percent_cell(part: int | None, whole: int | None) -> str:
    """Write a part in percent; - if it is not known."""
    return "-" if part is None or not whole else percent(part, whole)


def count_cell(number: int | None) -> str:
    """Write a count; nothing if there is none."""
    return "" if number is None else f"{number:,}"


def left_out_line(hidden: int, noun: str, *, in_total: bool = False) -> str:
    """Tell how many rows are not listed; nothing if all are."""
    if not hidden:
        return ""
    more = count_of(hidden, f"more {noun}")
    return f"({more}{', in the total' if in_total else ''}; all of them: --all)\n"


def rate_cell(count: float | None) -> str:
    """Write a mean count; - if it is not known."""
    return "-" if count is None else f"{count:,.2f}"
