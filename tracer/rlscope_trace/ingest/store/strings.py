"""The table string: names that occur often, stored once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter


class Strings:
    """Numbers names from 1, those that the table holds already first."""

    def __init__(self, trace: TraceWriter) -> None:
        """Read what the table of this trace holds."""
        stored = trace.con.execute("SELECT value, string_id FROM string").fetchall()
        self._trace = trace
        self._ids: dict[str, int] = dict(stored)
        self._values: list[str] = [value for value, _ in sorted(stored, key=lambda row: row[1])]
        self._stored = len(self._ids)

    def number(self, value: str) -> int:
        """Return the string_id of a name."""
        found = self._ids.get(value)
        if found is None:
            self._values.append(value)
            found = self._ids[value] = len(self._values)
        return found

    def value(self, string_id: int) -> str:
        """Return the name that has a number."""
        return self._values[string_id - 1]

    def insert(self) -> None:
        """Store the names that are new."""
        new = self._values[self._stored :]
        if new:
            numbers = list(range(self._stored + 1, len(self._values) + 1))
            self._trace.insert("string", "SELECT unnest(?), unnest(?)", values=[numbers, new])
        self._stored = len(self._values)
