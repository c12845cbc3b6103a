"""One process of the target, as the instruments know it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Path, device, inode, first address, end, offset in the file: PythonScan.mappings().
Mapping = tuple[str, int, int, int, int, int]
FileKey = tuple[int, int]

# How often its mappings are read: at first, and once nothing changes.
_SHORT_NS = 250_000_000
_LONG_NS = 2_000_000_000


def cpu_time_ns(pid: int) -> int | None:
    """Return the CPU time that a process has used; None if it is gone."""
    try:
        # The clock of another process: CPUCLOCK_SCHED of the whole group (linux/posix-timers.h).
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return None


@dataclass(slots=True)
class Process:
    """What is known of a process, and when it is to be looked at again."""

    pid: int
    is_new: bool
    """It entered the trace just now, so that its modules are still being loaded."""
    due_ns: int = 0
    mappings: tuple[Mapping, ...] = ()
    is_settled: bool = False
    """The last two looks saw the same mappings: what was being loaded is loaded."""
    interpreter: FileKey | None = None
    is_told: bool = False
    """It has been written down that there is no Python in it."""
    cpu_ns: int = 0
    _interval_ns: int = field(default=_SHORT_NS)

    def update(self, mappings: Sequence[Mapping], now_ns: int) -> bool:
        """Take the mappings that it has now; tell whether they are others than before."""
        changed = tuple(mappings) != self.mappings
        self.mappings = tuple(mappings)
        # What was there before us has long been loaded.
        self.is_settled = not changed or not self.is_new
        self._interval_ns = _SHORT_NS if changed else min(2 * self._interval_ns, _LONG_NS)
        self.is_new = True
        self.due_ns = now_ns + self._interval_ns
        return changed

    def has_replaced_its_program(self) -> bool:
        """Tell whether the interpreter that was found in it is no longer there: it called exec."""
        return self.interpreter is not None and self.interpreter not in {
            (mapping[1], mapping[2]) for mapping in self.mappings
        }
