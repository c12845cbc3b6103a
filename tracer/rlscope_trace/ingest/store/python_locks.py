"""The locks between processes that Python made: marks in the domain of the phases say where.

The target reports each by a mark: cupti/python/rlscope_phases/locks.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

# As in locks.py: what such a mark begins with.
_LOCK = "lock"
# Of all processes: the program can report locks without end.
MAX_LOCKS = 1 << 16
_MAX_DIGITS = 15


class PythonLocks:
    """The locks of one recording."""

    def __init__(self) -> None:
        self._addresses: set[int] = set()

    def add(self, text: str) -> None:
        """Take the text of a mark in the domain of the phases."""
        prefix, _, number = text.partition("\t")
        if prefix != _LOCK or len(number) > _MAX_DIGITS or not number.isdecimal():
            return
        if len(self._addresses) < MAX_LOCKS:
            self._addresses.add(int(number))

    def write(self, trace: TraceWriter) -> None:
        """Put them into the table python_lock.

        One that is forked has its locks at the same address as its parent, so that they are of no
        process.
        """
        if self._addresses:
            batch = {"lock_address": np.array(sorted(self._addresses), dtype=np.int64)}
            trace.insert("python_lock", "SELECT lock_address FROM batch", batch)
