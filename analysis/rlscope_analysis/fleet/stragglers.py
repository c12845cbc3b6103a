"""Which member each iteration waits for, where iterations of the members go together.

Members of a synchronous job begin and end an iteration together: how long it took says nothing of
who was slow. Its own time does, which is the rest without waiting for others.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlscope_analysis.fleet.merge import Iteration, Merged

    Offset = Callable[[int], int]

CLOCK, NUMBER, NOT_ALIGNED = "clock", "number", "none"
"""How iterations were found to go together: at the same time; assumed, for each member has as many
ranges of one name; not at all."""


@dataclass(frozen=True, slots=True)
class Straggling:
    """How one member stands in iterations that all members share."""

    member: str
    iterations: int
    time_ns: int
    own_ns: int
    slowest: int
    """In how many it had the longest own time."""
    beyond_ns: int
    """By how much it was slower there than the next: gained if it were as fast as that."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """Iterations that go together."""

    how: str
    rows: tuple[Mapping[str, Iteration], ...] = ()
    """One of each member."""
    left_out: int = 0
    """Iterations of the first member for which another has none."""


def align(whole: Merged, offsets: Mapping[str, Offset] | None = None) -> Alignment:
    """Find the iterations that all members share.

    offsets: what to add to an instant of each member, for one clock of all; None: not known.
    """
    names = sorted(whole.members)
    offsets = common_clock(whole, offsets)
    found = {name: whole.iterations.get(name, ()) for name in names}
    facts = [whole.members[name] for name in names]
    if len(names) < 2 or any(not found[name] for name in names):
        return Alignment(NOT_ALIGNED)
    if offsets is not None:
        return _by_clock(names, found, offsets)
    ranges = {(fact.source, fact.per, fact.iterations) for fact in facts}
    if len(ranges) == 1 and facts[0].source == "range":
        rows = zip(*(found[name] for name in names), strict=False)
        return Alignment(NUMBER, tuple(dict(zip(names, row, strict=True)) for row in rows))
    return Alignment(NOT_ALIGNED)


def common_clock(
    whole: Merged, offsets: Mapping[str, Offset] | None
) -> Mapping[str, Offset] | None:
    """Return what to add to an instant of each member; None: they have no clock in common."""
    boots = {fact.boot_id for fact in whole.members.values()}
    if offsets is None and len(boots) == 1 and None not in boots:
        return dict.fromkeys(whole.members, lambda ts_ns: ts_ns)
    return offsets if offsets is not None and offsets.keys() >= whole.members.keys() else None


def _by_clock(
    names: Sequence[str], found: Mapping[str, Sequence[Iteration]], offsets: Mapping[str, Offset]
) -> Alignment:
    """Take iterations for the same that have the middle of each other inside."""
    spans = {
        name: [
            (offsets[name](one.start_ns), offsets[name](one.start_ns + one.time_ns), one)
            for one in found[name]
        ]
        for name in names
    }
    starts = {name: [span[0] for span in spans[name]] for name in names}
    first, *others = names
    rows = []
    for start, end, one in spans[first]:
        row = {first: one}
        for name in others:
            at = bisect.bisect_right(starts[name], (start + end) // 2) - 1
            if at < 0:
                break
            other_start, other_end, other = spans[name][at]
            if not (start + end) // 2 < other_end:
                break
            if not start <= (other_start + other_end) // 2 < end:
                break
            row[name] = other
        if len(row) == len(names):
            rows.append(row)
    if 2 * len(rows) < len(spans[first]):
        return Alignment(NOT_ALIGNED)
    return Alignment(CLOCK, tuple(rows), len(spans[first]) - len(rows))


def own_ns(one: Iteration) -> int | None:
    """Return its time without waiting for others; None: not known."""
    return None if one.waited_ns is None else max(one.time_ns - one.waited_ns, 0)


def straggling(alignment: Alignment) -> tuple[Straggling, ...]:
    """Return how the members stand, the one that most iterations waited for first.

    Iterations in which the waiting of any member is not known are left out.
    """
    rows = known_rows(alignment)
    if not rows:
        return ()
    slowest: dict[str, list[int]] = {name: [] for name in rows[0]}
    for row in rows:
        last = slowest_of(row)
        longest, following = sorted((own for _, own in row.values()), reverse=True)[:2]
        if longest > following:
            slowest[last].append(longest - following)
    found = [
        Straggling(
            name, len(rows),
            sum(row[name][0].time_ns for row in rows), sum(row[name][1] for row in rows),
            len(beyond), sum(beyond),
        )
        for name, beyond in slowest.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-one.beyond_ns, -one.slowest, one.member)))


def known_rows(alignment: Alignment) -> list[dict[str, tuple[Iteration, int]]]:
    """Return the iterations of which the own time of all members is known, with that."""
    found = []
    for row in alignment.rows:
        known = {name: (one, own) for name, one in row.items() if (own := own_ns(one)) is not None}
        if len(known) == len(row):
            found.append(known)
    return found


def slowest_of(row: Mapping[str, tuple[Iteration, int]]) -> str:
    """Return the member with the longest own time."""
    return max(row, key=lambda name: (row[name][1], name))
