"""The sets that were active together, while they are counted, and the rows they become."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of each question; what is not among the longest is one row, whose members are OTHERS.
_MAX_SETS = 1_000
OTHERS = None

Members: TypeAlias = "tuple[str, ...] | None"
# Kind, process and operation.
_Question: TypeAlias = "tuple[str, int | None, str | None]"
Key: TypeAlias = "tuple[str, int | None, str | None, Members]"


@dataclass(slots=True)
class Intervals:
    """What is known of one set so far."""

    time_ns: int = 0
    count: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def add(self, time_ns: int, count: int, first_ns: int, last_ns: int) -> None:
        """Add what a later window found; an interval that both share is one."""
        if not self.count:
            self.first_ns = first_ns
        elif self.last_ns == first_ns:
            count -= 1
        self.time_ns += time_ns
        self.count += count
        self.last_ns = last_ns


def rows_of(found: dict[Key, Intervals]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of active_set: of each question the longest sets, and one that is the rest."""
    questions: dict[_Question, dict[Members, Intervals]] = defaultdict(dict)
    for (kind, process_id, operation, members), intervals in found.items():
        questions[kind, process_id, operation][members] = intervals
    for question, sets in sorted(questions.items(), key=lambda item: [str(x) for x in item[0]]):
        for listed, s in _longest(sets):
            # Of many sets together nobody counts intervals.
            count = None if listed is OTHERS else s.count
            yield *question, listed, s.time_ns, count, s.first_ns, s.last_ns


def _longest(sets: dict[Members, Intervals]) -> Iterator[tuple[list[str] | None, Intervals]]:
    named = [(members, found) for members, found in sets.items() if members is not None]
    ranked = sorted(named, key=lambda item: (-item[1].time_ns, item[0]))
    for members, intervals in ranked[:_MAX_SETS]:
        yield list(members), intervals
    rest = [intervals for _, intervals in ranked[_MAX_SETS:]]
    rest += [intervals for members, intervals in sets.items() if members is OTHERS]
    if rest:
        yield (
            OTHERS,
            Intervals(
                time_ns=sum(s.time_ns for s in rest),
                first_ns=min(s.first_ns for s in rest),
                last_ns=max(s.last_ns for s in rest),
            ),
        )
