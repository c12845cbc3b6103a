"""The CPUs that a process may use, as the OS kernel lists them: 0-3,8."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_SPAN = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
# More than any kernel is built for. A trace may come from a stranger.
_MOST = 10_000


def own_cpu_count() -> int:
    """Return how many CPUs this process may use; not every system tells which."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def listed_cpus(text: str | None) -> frozenset[int]:
    """Return the CPUs of a list; none where a part of it is none, as nothing is known then.

    text: as the OS kernel writes it, or as JSON, which earlier recorders wrote.
    """
    cpus: set[int] = set()
    for part in (text or "").strip("[]").split(","):
        span = _SPAN.fullmatch(part.strip())
        if span is None:
            return frozenset()
        first, last = int(span[1]), int(span[2] or span[1])
        if last < first or max(last - first, len(cpus)) >= _MOST:
            return frozenset()
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


def allowed_cpus(connection: duckdb.DuckDBPyConnection) -> frozenset[int]:
    """Return those that the traced program might use; none: that is not known."""
    found = connection.execute("SELECT value FROM meta WHERE key = 'cpus_allowed'").fetchone()
    return listed_cpus(found[0] if found else None)
