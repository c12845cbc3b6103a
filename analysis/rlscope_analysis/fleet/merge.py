"""Merges partials: in any order, and in any groups, to the same sums, to the nanosecond.

All of it is integers and fractions, and what is least or most is distinguished by the name of the
member where two are equal.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlscope_analysis.fleet.partial import Facts, Partial, Row


class Key(NamedTuple):
    """What is added up."""

    kind: str
    role: str | None = None
    name: str | None = None
    bucket: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """What the members with such a row have together, and how far they differ."""

    time_ns: int
    part_ns: int | None
    count: int | None
    sampled_ns: int
    variance_ns2: int
    """Of time_ns: traces are sampled independently of each other."""
    members: int
    least: tuple[Fraction, str]
    """The smallest share of the time of its kind in a member, and whose it is."""
    most: tuple[Fraction, str]

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            self.time_ns + other.time_ns,
            _known_sum(self.part_ns, other.part_ns),
            _known_sum(self.count, other.count),
            self.sampled_ns + other.sampled_ns,
            self.variance_ns2 + other.variance_ns2,
            self.members + other.members,
            min(self.least, other.least),
            # Of equal ones the first name, as of the least.
            min(self.most, other.most, key=lambda most: (-most[0], most[1])),
        )


class Wait(NamedTuple):
    """A wait for another member, as far as that is known."""

    start_ns: int
    time_ns: int
    code: str


class Iteration(NamedTuple):
    """One iteration of a member, on its own clock."""

    number: int
    start_ns: int
    time_ns: int
    waited_ns: int | None
    """For other members; None: not known."""
    limits: tuple[tuple[str, int], ...] = ()
    """What held it up, by code, in ns: they add up to its time; none: not kept."""
    waits: tuple[Wait, ...] = ()
    """The longest."""


class Task(NamedTuple):
    """A task of Ray that a member ran, on its own clock."""

    start_ns: int
    time_ns: int
    name: str
    limits: tuple[tuple[str, int], ...]
    """What took its time, by code, in ns."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Members that were merged; neutral where there is none."""

    sums: dict[Key, Sum] = field(default_factory=dict)
    members: dict[str, Facts] = field(default_factory=dict)
    iterations: dict[str, tuple[Iteration, ...]] = field(default_factory=dict)
    tasks: dict[str, tuple[Task, ...]] = field(default_factory=dict)

    def __add__(self, other: Merged) -> Merged:
        """Merge with others. Raises ValueError where both have the same member."""
        whole = Merged(dict(self.sums), dict(self.members), dict(self.iterations), dict(self.tasks))
        whole.take(other)
        return whole

    def take(self, other: Merged) -> None:
        """Merge others into this one. Raises ValueError where both have the same member."""
        if twice := self.members.keys() & other.members.keys():
            raise ValueError(f"merged twice: {min(twice)}")
        for key, value in other.sums.items():
            self.sums[key] = self.sums[key] + value if key in self.sums else value
        self.members.update(other.members)
        self.iterations.update(other.iterations)
        self.tasks.update(other.tasks)

    def of_kind(self, kind: str) -> dict[Key, Sum]:
        """Return the sums of one kind.

        Of limits and the like those of members with iterations; where none has any, of their runs.
        """
        found = {key: value for key, value in self.sums.items() if key.kind == kind}
        return found if found or kind not in OF_ITERATIONS else self.of_kind(f"whole_{kind}")

    def time_of(self, kind: str) -> int:
        """Return what the sums of one kind add up to, in ns."""
        return sum(value.time_ns for value in self.of_kind(kind).values())


def merged(parts: Iterable[tuple[str, Partial]]) -> Merged:
    """Merge partials under the names of their members, one after the other."""
    whole = Merged()
    for name, partial in parts:
        whole.take(of_one(name, partial))
    return whole


def of_one(name: str, partial: Partial) -> Merged:
    """Return one member, to be merged."""
    rows = [row for row in partial.rows if row.kind not in _ONE_BY_ONE]
    if partial.facts.is_whole:
        rows = [
            row._replace(kind=f"whole_{row.kind}") if row.kind in OF_ITERATIONS else row
            for row in rows
        ]
    totals: Counter[str] = Counter()
    buckets: dict[str | None, list[Row]] = {}
    for row in rows:
        totals[row.kind] += row.time_ns or 0
        if row.kind == "process":
            buckets.setdefault(row.bucket, []).append(row)
    sums = {_key(row): _sum([row], totals[row.kind], name) for row in rows}
    sums |= {
        Key("bucket", bucket=bucket): _sum(of, totals["process"], name)
        for bucket, of in buckets.items()
    }
    return Merged(
        sums, {name: partial.facts}, {name: _iterations(partial)}, {name: _tasks(partial)}
    )


_ONE_BY_ONE = ("iteration", "iteration_limit", "iteration_wait", "task", "task_limit")
"""Kinds whose rows are kept, and not added up."""
OF_ITERATIONS = ("limit", "finding", "iteration_time")
"""Of a member without iterations, whose run counts as one, these are kept apart."""


def _iterations(partial: Partial) -> tuple[Iteration, ...]:
    limits = _limits(partial, "iteration_limit")
    waits: dict[int, list[Wait]] = {}
    for row in _of_kind(partial, "iteration_wait"):
        wait = Wait(row.at_ns or 0, row.time_ns or 0, sys.intern(row.name or ""))
        waits.setdefault(row.number or 0, []).append(wait)
    found = (
        Iteration(
            row.number or 0, row.at_ns or 0, row.time_ns or 0, row.part_ns,
            tuple(sorted(limits.get(row.number or 0, ()))),
            tuple(sorted(waits.get(row.number or 0, ()))),
        )
        for row in _of_kind(partial, "iteration")
    )  # fmt: skip
    return tuple(sorted(found))


def _tasks(partial: Partial) -> tuple[Task, ...]:
    limits = _limits(partial, "task_limit")
    found = (
        Task(
            row.at_ns or 0, row.time_ns or 0, row.name or "",
            tuple(sorted(limits.get(row.number or 0, ()))),
        )
        for row in _of_kind(partial, "task")
    )  # fmt: skip
    return tuple(sorted(found))


def _limits(partial: Partial, kind: str) -> dict[int, list[tuple[str, int]]]:
    found: dict[int, list[tuple[str, int]]] = {}
    for row in _of_kind(partial, kind):
        # One text for all rows of all members.
        limit = (sys.intern(row.name or ""), row.time_ns or 0)
        found.setdefault(row.number or 0, []).append(limit)
    return found


def _of_kind(partial: Partial, kind: str) -> Iterator[Row]:
    return (row for row in partial.rows if row.kind == kind)


def _key(row: Row) -> Key:
    return Key(row.kind, row.role, row.name, row.bucket, row.number)


def _sum(rows: list[Row], total_ns: int, member: str) -> Sum:
    time_ns = sum(row.time_ns or 0 for row in rows)
    share = (Fraction(time_ns, total_ns) if total_ns else Fraction(0), member)
    part_ns: int | None = 0
    count: int | None = 0
    for row in rows:
        part_ns, count = _known_sum(part_ns, row.part_ns), _known_sum(count, row.pieces)
    return Sum(
        time_ns, part_ns, count,
        sum(row.sampled_ns for row in rows), sum(row.stderr_ns**2 for row in rows),
        1, share, share,
    )  # fmt: skip


def _known_sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right
