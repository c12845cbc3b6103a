"""A table of typed columns, and an answer made of such tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from rlscope_analysis.result.column import Column, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rlscope_analysis.result.names import ProcessName
    from rlscope_analysis.result.note import Note

Values = tuple[Any, ...]
"""One value for each column."""


class NoValue(Enum):
    """There is no such value, and there can be none: the mean of a line that adds up others."""

    NO_VALUE = "no value"


NO_VALUE = NoValue.NO_VALUE


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that stand below one that tells of all of them."""

    head: Values | ProcessName | Note
    """One of all columns, or words across them."""
    size: int
    """How many of the rows, which follow each other in the order of the groups."""


@dataclass(frozen=True, slots=True)
class Pivot:
    """For people: a column for each value of `over`, holding that of `value`, and their sum."""

    over: str
    value: str
    order: tuple[str, ...] = ()
    """Values of `over`; what is not listed comes after, by name."""


@dataclass(frozen=True, slots=True)
class Table:
    """Typed columns and their rows; the rest is how people see them."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Iterable[Values]
    """Walked through once only where a query of a user is read while it is shown."""
    notes: tuple[Note, ...] = ()
    """What limits it."""
    remarks: tuple[Note, ...] = ()
    """What else there is to say of it."""
    pivot: Pivot | None = None
    groups: tuple[Group, ...] = ()
    total: Values | None = None
    """Stands for all rows, shown or not."""
    law: Values | None = None
    """What the total has to be."""
    title_has_units: bool = False
    rank: str | None = None
    """A column: of many rows those with the largest values are shown, and rows that have none with
    their group. None: the first rows are."""
    depth: str | None = None
    """A column: how far a row lies inside others."""
    noun: str = "row"
    """What a row is."""
    group_noun: str = "group"
    left_out_of: str | None = None
    """A column: rows that are not shown count in their group, with their part of its total."""

    def place(self, name: str) -> int:
        """Return the index of a column."""
        return next(at for at, column in enumerate(self.columns) if column.name == name)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield each row by the names of its columns."""
        names = [column.name for column in self.columns]
        for row in self.rows:
            yield dict(zip(names, row, strict=True))


@dataclass(frozen=True, slots=True)
class Answer:
    """What one question about a trace brought."""

    tables: tuple[Table, ...]
    """What people see, in this order."""
    data: Table
    """Every row with every column, for programs."""
    facts: Mapping[str, Any]
    """What JSON says of the trace and of the question: values, dataclasses, notes."""
    head: tuple[tuple[str, str | Note], ...] = ()
    """The same for people: what it is, and the words."""
    opening: tuple[Note, ...] = ()
    """For people: lines before the tables."""
    closing: tuple[Note, ...] = ()
    """Lines after them."""
    is_complete: bool = True
    """False: the recording was cut off."""
    lines: int | None = None
    """So many lines it has at most for people: where it has more, `shorter` stands for it."""
    shorter: Answer | None = None
    """The same with less of it, the rest counted."""
    facts_hold_rows: bool = False
    """Whether the facts hold the rows too, one inside the other: JSON does without `data`."""


def total_of(columns: Sequence[Column], rows: Sequence[Values]) -> Values | None:
    """Return the sums of the columns that can be added up; None where there are none.

    The first that is shown says so, unless it is a sum itself. A value that is not known leaves no
    sum.
    """
    if not rows or not any(column.additive for column in columns):
        return None
    sums: list[Any] = [NO_VALUE for _ in columns]
    sums[next(at for at, column in enumerate(columns) if column.role is Role.SHOWN)] = "total"
    for at, column in enumerate(columns):
        if column.additive:
            sums[at] = sum_of(row[at] for row in rows)
    return tuple(sums)


def sum_of(values: Iterable[Any]) -> Any:  # noqa: ANN401
    """Add up; None where one is not known."""
    known = list(values)
    return None if None in known else sum(known)
