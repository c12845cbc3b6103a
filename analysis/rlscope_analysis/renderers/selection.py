"""Which rows of a table are shown where that is not all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_analysis.result.names import ProcessName
    from rlscope_analysis.result.note import Note
    from rlscope_analysis.result.table import Table, Values


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """The rows of a group that are shown, and those that are not."""

    head: Values | ProcessName | Note | None
    rows: list[Values]
    hidden: list[Values]


@dataclass(frozen=True, slots=True)
class Selection:
    """The groups to show, the rows of those of which none is, and how many rows are not shown."""

    groups: list[ShownGroup]
    hidden_groups: list[list[Values]]
    hidden: int


def _spans(table: Table, count: int) -> Iterable[tuple[Values | ProcessName | Note | None, int]]:
    """Yield each group; all rows are one where there are none."""
    if not table.groups:
        yield None, count
    for group in table.groups:
        yield group.head, group.size


def select(table: Table, limit: int | None) -> Selection:
    """Choose `limit` rows (None: all): the first, or those with most; and the groups they are in.

    A row that has no rank is shown with the others of its group, and not counted.
    """
    rows = list(table.rows)
    at = None if table.rank is None else table.place(table.rank)
    ranked = [place for place, row in enumerate(rows) if at is None or row[at] is not None]
    if at is not None:
        ranked.sort(key=lambda place: rows[place][at], reverse=True)
    shown = set(ranked[:limit])
    left = set(ranked) - shown
    groups, hidden_groups, start = [], [], 0
    for head, size in _spans(table, len(rows)):
        places = range(start, start + size)
        start += size
        hidden = [rows[place] for place in places if place in left]
        if size and not shown.intersection(places):
            hidden_groups.append(hidden)
            continue
        listed = [rows[place] for place in places if place not in left]
        groups.append(ShownGroup(head, listed, hidden))
    return Selection(groups, hidden_groups, len(left))
