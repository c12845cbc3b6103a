"""The CPUs that a process may use, as the OS kernel lists them: 0-3,8."""

from __future__ import annotations

import re

_SPAN = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
# More than any kernel is built for. A trace may come from a stranger.
_MOST = 10_000


def listed_cpus(text: str | None) -> frozenset[int]:
    """Return the CPUs of a list; none where a part of it is none, as nothing is known then."""
    cpus: set[int] = set()
    for part in (text or "").split(","):
        span = _SPAN.fullmatch(part.strip())
        if span is None:
            return frozenset()
        first, last = int(span[1]), int(span[2] or span[1])
        if last < first or max(last - first, len(cpus)) >= _MOST:
            return frozenset()
        cpus.update(range(first, last + 1))
    return frozenset(cpus)
