"""Which operation somebody means, by its name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from rlscope_analysis.errors import TraceError

if TYPE_CHECKING:
    from collections import Counter

_LISTED_NAMES = 12


def known_name(name: str, known: Counter[str]) -> str:
    """Return the name as the trace has it, which may differ in upper and lower case.

    known: every name, and how often it occurs. Raises TraceError where none is meant.
    """
    same = [other for other in known if other.lower() == name.lower()]
    if name in known:
        return name
    if len(same) == 1:
        return same[0]
    raise TraceError(f"no operation is called {name!r}", hint=choice_of(name, known))


def choice_of(name: str, known: Counter[str]) -> str:
    """List the names, those that look like the one given first, then the most frequent."""
    if not known:
        return "the trace holds no operation"
    lowered: dict[str, list[str]] = {}
    for other, _ in known.most_common():
        lowered.setdefault(other.lower(), []).append(other)
    close = difflib.get_close_matches(name.lower(), lowered, n=len(lowered), cutoff=0.5)
    names = [other for match in close for other in lowered[match]]
    names += [other for other, _ in known.most_common() if other not in names]
    more = f" and {len(names) - _LISTED_NAMES:,} more" if len(names) > _LISTED_NAMES else ""
    return f"one of: {', '.join(names[:_LISTED_NAMES])}{more}"
