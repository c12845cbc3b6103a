"""One column of an answer: what its values are, and what part it plays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlscope_analysis.result.note import Note


class Unit(Enum):
    """What the values of a column are."""

    TEXT = "text"
    """Words: str, a Note, or a name of result.names."""
    NS = "ns"
    SHARE = "share"
    """A part of 1."""
    COUNT = "count"
    RATE = "rate"
    """A number with a fraction."""
    ID = "id"
    """A number that names something."""
    FLAG = "flag"
    RANKING = "ranking"
    """A tuple of result.names.Part, the largest first."""
    UNKNOWN = "unknown"
    """Nothing of it was measured."""
    DATABASE_VALUE = "database value"
    """Of a query of a user: nobody declared what it is."""
    DATABASE_NUMBER = "database number"


class Role(Enum):
    """What a column is there for."""

    SHOWN = "shown"
    HIDDEN = "hidden"
    """For programs: a table for people leaves it out."""
    KEY = "key"
    """The same, but it tells rows apart that look alike."""
    ERROR = "error"
    """The standard error of the value of the pivot; 0: that is exact."""


class Scale(Enum):
    """In which unit people read a number, if not in that of all others, and to which digit."""

    SHORT_MS = "ms, two digits"
    US = "us, one digit"
    TWO_DIGITS = "two digits"
    WHOLE = "no digit"


@dataclass(frozen=True, slots=True)
class Said:
    """How people see a value: as a note. Programs get the columns that it is made of."""

    code: str
    columns: tuple[str, ...] = ()
    """Other columns of the row: parameters of the note by their names, beside `value`."""
    label: str | None = None
    """The words over it; None: those of the column."""
    is_always_known: bool = True
    """False: where neither the value nor the columns are known, nor is what it says."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. A value of None was not measured; NO_VALUE: there can be none."""

    name: str
    unit: Unit = Unit.TEXT
    role: Role = Role.SHOWN
    label: str | None = None
    """The words over it, without its unit; None: those of its name."""
    additive: bool = False
    """Whether the sum over all rows means something: each instant or event is in one of them."""
    share_of: str | None = None
    """A column: people see the value in % of that one too."""
    share_error: str | None = None
    """A column: the standard error of the value; None or 0: it is exact."""
    scale: Scale | None = None
    most: int | None = None
    """So much of a longer name is shown."""
    heading: Note | None = None
    """The words over it in place of the label: it is for one value of a column that has `said`."""
    said: Said | None = None
    """None: people see the value itself, and - where there is none."""

    @property
    def words(self) -> str:
        """What it is called, without its unit."""
        if self.label is not None:
            return self.label
        name = self.name.removesuffix("_ns") if self.unit is Unit.NS else self.name
        name = name.removesuffix("share").rstrip("_") if self.unit is Unit.SHARE else name
        return name.replace("_cpu", "_CPU").replace("_", " ")


_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "REAL", "NUMERIC")
_FRACTIONS = ("DECIMAL", "DOUBLE", "FLOAT", "REAL", "NUMERIC")


def is_number(type_name: str) -> bool:
    """Tell whether values of a type of DuckDB are numbers; lists and structs are none."""
    name = type_name.upper()
    return any(number in name for number in _NUMBERS) and not name.endswith(("]", ")"))


def unit_of(name: str, type_name: str) -> Unit:
    """Return the unit of a column that keeps to the names of the schema: units end the name."""
    if type_name.upper() == "BOOLEAN":
        return Unit.FLAG
    if not is_number(type_name):
        return Unit.TEXT
    last = name.rpartition("_")[2]
    if last in _BY_LAST_WORD:
        return _BY_LAST_WORD[last]
    is_fraction = any(fraction in type_name.upper() for fraction in _FRACTIONS)
    return Unit.RATE if is_fraction else Unit.COUNT


_BY_LAST_WORD = {
    "ns": Unit.NS, "share": Unit.SHARE, "id": Unit.ID, "pid": Unit.ID, "tid": Unit.ID,
}  # fmt: skip
