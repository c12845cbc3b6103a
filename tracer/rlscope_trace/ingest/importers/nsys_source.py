"""One export on its way into a trace: what all readers of its tables need."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_trace.ingest.importers.errors import ImportFileError
from rlscope_trace.ingest.importers.nsys_losses import Losses
from rlscope_trace.ingest.importers.nsys_owners import UNKNOWN, Owners
from rlscope_trace.ingest.importers.nsys_sqlite import EXPORT_COMMAND, Columns, NsysFile, Progress

# Distinct names of one kind, and their characters.
_MAX_NAMES = 100_000
_MAX_NAMES_LENGTH = 32 << 20
_OTHER_NAME = "(other names)"

# 73 years of nanoseconds on either side of the start, so that no sum or difference overflows.
MAX_TIME_NS = 1 << 61


class Names:
    """Names that many rows share, by number from 1; 0 stands for no name."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._length = 0
        self.other_count = 0
        """How often (other names) stands for one that there was no place for."""

    def number(self, name: str | None) -> int:
        """Return the number of a name, a new one if it is new."""
        if name is None:
            return 0
        if (number := self._numbers.get(name)) is not None:
            return number
        self._length += len(name)
        if len(self._numbers) >= _MAX_NAMES or self._length > _MAX_NAMES_LENGTH:
            self.other_count += 1
            name = _OTHER_NAME
        return self._numbers.setdefault(name, len(self._numbers) + 1)

    def values(self) -> list[str]:
        """Return all names, the first has number 1."""
        return list(self._numbers)


@dataclass(frozen=True, slots=True)
class Source:
    """An open export, and where what it holds goes."""

    file: NsysFile
    index: int
    """Its place among the files."""
    shift_ns: int
    """What turns its times into those of the trace."""
    owners: Owners
    names: Names
    losses: Losses
    progress: Progress

    def read_intervals(self, table: str, names: tuple[str, ...]) -> Columns | None:
        """Read start, end and more columns, on the clock of the trace, without half rows.

        Returns None if there is no such table, or nothing in it. Columns that the table has not
        are left out.
        """
        columns = self.read_times(table, names)
        if columns is None or "end" not in columns:
            return None
        starts, ends = columns["start"], columns["end"]
        half = missing(starts) | missing(ends)
        half |= np.ma.getdata(ends) < np.ma.getdata(starts)
        if count := int(half.sum()):
            firsts = np.ma.getdata(starts)[half & ~missing(starts)]
            first_ns = int(firsts.min()) if len(firsts) else None
            self.losses.add_half(table, count, first_ns)
            columns = {name: column[~half] for name, column in columns.items()}
        columns["start"], columns["end"] = (np.ma.getdata(columns[n]) for n in ("start", "end"))
        return columns if len(columns["start"]) else None

    def read_times(self, table: str, names: tuple[str, ...]) -> Columns | None:
        """Read start, end if there is one, and more columns; times may still be missing."""
        columns = self.file.read(table, ("start", "end", *names), self.progress)
        if "start" not in columns or not len(columns["start"]):
            return None
        for name in ("start", "end"):
            if name in columns:
                columns[name] = self._on_trace_clock(table, columns[name])
        return columns

    def numbered(self, ids: NDArray[Any] | None, rows: int) -> NDArray[np.int32]:
        """Return the number of the name of each row, of the id it has in StringIds."""
        if ids is None:
            return np.zeros(rows, dtype=np.int32)
        keys, place = np.unique(filled(ids), return_inverse=True)
        strings = self.file.strings(keys.tolist())
        numbers = [self.names.number(strings.get(key)) for key in keys.tolist()]
        return np.array(numbers, dtype=np.int32)[place]

    def _on_trace_clock(self, table: str, times: NDArray[Any]) -> NDArray[Any]:
        known = np.ma.compressed(times) if isinstance(times, np.ma.MaskedArray) else times
        if len(known) and max(abs(int(known.min())), abs(int(known.max()))) > MAX_TIME_NS:
            raise ImportFileError(
                f"{self.file.path} is damaged: {table} holds a time that lies centuries away",
                hint=f"export it once more: {EXPORT_COMMAND}",
            )
        wide: NDArray[Any] = times.astype(np.int64, copy=False)
        if self.shift_ns:
            wide += self.shift_ns
        return wide


def missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which rows are NULL."""
    if isinstance(column, np.ma.MaskedArray):
        return np.asarray(np.ma.getmaskarray(column))
    return np.zeros(len(column), dtype=bool)


def filled(column: NDArray[Any] | None, value: int = UNKNOWN, rows: int = 0) -> NDArray[Any]:
    """Return a column with `value` where it is NULL; `rows` of it where there is no column."""
    if column is None:
        return np.full(rows, value, dtype=np.int64)
    if isinstance(column, np.ma.MaskedArray):
        return np.asarray(column.filled(value))
    return column


def distinct_rows(
    columns: tuple[NDArray[Any], ...],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the distinct rows of columns: where each occurs first, and the number of each row."""
    place = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, codes = np.unique(column, return_inverse=True)
        # Numbered anew each time: below the number of rows, so that the product fits.
        place = np.unique(place * len(values) + codes, return_inverse=True)[1].astype(np.int64)
    first = np.unique(place, return_index=True)[1]
    return first.astype(np.int64), place
