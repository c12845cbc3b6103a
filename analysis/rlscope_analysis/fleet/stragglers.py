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
    found = {name: whole.iterations.get(name, ()) for name in names}
    facts = [whole.members[name] for name in names]
    if len(names) < 2 or any(not found[name] for name in names):
        return Alignment(NOT_ALIGNED)
    boots = {fact.boot_id for fact in facts}
    if offsets is None and len(boots) == 1 and None not in boots:
        offsets = dict.fromkeys(names, lambda ts_ns: ts_ns)
    if offsets is not None and all(name in offsets for name in names):
        return _by_clock(names, found, offsets)
    ranges = {(fact.source, fact.per, fact.iterations) for fact in facts}
    if len(ranges) == 1 and facts[0].source == "range":
        rows = zip(*(found[name] for name in names), strict=False)
        return Alignment(NUMBER, tuple(dict(zip(names, row, strict=True)) for row in rows))
    return Alignment(NOT_ALIGNED)


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
    rows = _known(alignment)
    if not rows:
        return ()
    slowest: dict[str, list[int]] = {name: [] for name in rows[0]}
    for row in rows:
        last = _slowest(row)
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


@dataclass(frozen=True, slots=True)
class Held:
    """What held up the job in one member, while the others waited for it."""

    member: str
    code: str
    iterations: int
    time_ns: int


def critical_path(alignment: Alignment) -> tuple[Held, ...]:
    """Follow the iterations that all members share through the one that each waited for.

    They add up to how long that one took in each; what it waited for others itself is what passing
    messages takes. Iterations of which no limits are kept are left out, most first.
    """
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for row in _known(alignment):
        member = _slowest(row)
        for code, time_ns in row[member][0].limits:
            iterations, before_ns = sums.get((member, code), (0, 0))
            sums[member, code] = iterations + 1, before_ns + time_ns
    found = [Held(*key, *value) for key, value in sums.items()]
    return tuple(sorted(found, key=lambda one: (-one.time_ns, one.member, one.code)))


def _known(alignment: Alignment) -> list[dict[str, tuple[Iteration, int]]]:
    """Return those of which the own time of all members is known, with that."""
    found = []
    for row in alignment.rows:
        known = {name: (one, own) for name, one in row.items() if (own := own_ns(one)) is not None}
        if len(known) == len(row):
            found.append(known)
    return found


def _slowest(row: Mapping[str, tuple[Iteration, int]]) -> str:
    """Return the member with the longest own time."""
    return max(row, key=lambda name: (row[name][1], name))
