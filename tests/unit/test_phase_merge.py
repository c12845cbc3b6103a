"""The program's own ranges win over phases: against a count of instants."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlscope_trace._ingest import PhaseNames, merge_phases


@dataclass(frozen=True)
class Range:
    start: int
    end: int
    key: int
    is_auto: bool
    steps: int = -1


def merged(ranges: list[Range]) -> list[tuple[int, int, Range]]:
    """Return start, end and origin of what is left."""
    return [(start, end, origin) for start, end, origin, _ in merged_steps(ranges)]


def merged_steps(ranges: list[Range]) -> list[tuple[int, int, Range, int]]:
    """Return start, end, origin and environment steps of what is left."""
    ranges = sorted(ranges, key=lambda one: (one.start, -one.end))
    columns = (
        np.array([one.start for one in ranges], dtype=np.int64),
        np.array([one.end for one in ranges], dtype=np.int64),
        np.array([one.key for one in ranges], dtype=np.int32),
        np.array([one.is_auto for one in ranges], dtype=np.uint8),
    )
    steps = np.array([one.steps for one in ranges], dtype=np.int64)
    names = PhaseNames()
    names.add(*columns)
    found = merge_phases(*columns, steps, names=names)
    kept = zip(*(column.tolist() for column in found), strict=True)
    return sorted(
        ((start, end, ranges[origin], count) for start, end, origin, count in kept),
        key=lambda one: one[:2],
    )


def phases(*marks: tuple[int, int, int]) -> list[Range]:
    return [Range(start, end, key, is_auto=True) for start, end, key in marks]


def own(*marks: tuple[int, int, int]) -> list[Range]:
    return [Range(start, end, key, is_auto=False) for start, end, key in marks]


def spans(kept: list[tuple[int, int, Range]]) -> list[tuple[int, int, int]]:
    return [(start, end, one.key) for start, end, one in kept]


def test_a_range_that_names_a_phase_takes_its_place() -> None:
    kept = merged([*own((10, 20, 1)), *phases((10, 20, 100), (20, 30, 101))])
    assert spans(kept) == [(10, 20, 1), (20, 30, 101)]


def test_a_phase_that_begins_inside_the_range_goes_on_behind_it() -> None:
    kept = merged([*own((1000, 2000, 1)), *phases((1005, 1995, 100), (1995, 3000, 101))])
    assert spans(kept) == [(1000, 2000, 1), (2000, 3000, 101)]


def test_phases_stay_inside_a_range_that_holds_several() -> None:
    kept = merged([*own((0, 30, 1)), *phases((0, 10, 100), (10, 30, 101))])
    assert spans(kept) == [(0, 10, 100), (0, 30, 1), (10, 30, 101)]


def test_a_range_within_a_phase_is_nested_in_it() -> None:
    kept = merged([*own((12, 15, 1)), *phases((10, 20, 100))])
    assert spans(kept) == [(10, 20, 100), (12, 15, 1)]


def test_a_name_counts_for_all_its_ranges() -> None:
    # Once it holds one phase only, but as a rule it holds two.
    marks = [*own((0, 20, 1), (100, 120, 1))]
    marks += phases((0, 10, 100), (10, 20, 101), (100, 120, 100))
    kept = merged(marks)
    assert (100, 120, 100) in spans(kept)


def stepping(*marks: tuple[int, int, int, int]) -> list[Range]:
    return [Range(start, end, key, is_auto=True, steps=steps) for start, end, key, steps in marks]


def step_counts(ranges: list[Range]) -> list[tuple[int, int, int, int]]:
    return [(start, end, one.key, steps) for start, end, one, steps in merged_steps(ranges)]


def test_the_steps_of_a_phase_are_those_of_its_last_part() -> None:
    ranges = [*own((0, 15, 1)), *stepping((0, 8, 101, -1), (8, 20, 100, 4))]
    assert step_counts(ranges) == [
        (0, 8, 101, -1), (0, 15, 1, -1), (8, 15, 100, 0), (15, 20, 100, 4),
    ]  # fmt: skip


def test_a_range_that_stands_for_phases_has_their_steps() -> None:
    ranges = [*own((0, 100, 1), (10, 60, 2)), *stepping((10, 20, 100, 4), (20, 50, 100, 3))]
    assert step_counts(ranges) == [(0, 100, 1, -1), (10, 60, 2, 7)]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        merge_phases(
            np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(2, np.int32),
            np.zeros(2, np.uint8), np.zeros(2, np.int64), names=PhaseNames(),
        )  # fmt: skip


@st.composite
def nested(draw: st.DrawFn, start: int, end: int, depth: int) -> list[Range]:
    """Return properly nested ranges of a program within [start, end)."""
    found: list[Range] = []
    at = start
    while depth and end - at >= 2 and draw(st.booleans()):
        begin = draw(st.integers(at, end - 1))
        stop = draw(st.integers(begin + 1, end))
        found.append(Range(begin, stop, draw(st.integers(0, 3)), is_auto=False))
        found += draw(nested(begin, stop, depth - 1))
        at = stop
    return found


@st.composite
def one_thread(draw: st.DrawFn) -> list[Range]:
    ranges = draw(nested(0, 60, 3))
    edges = sorted(draw(st.sets(st.integers(0, 60), max_size=12)))
    for begin, stop in pairwise(edges):
        if draw(st.booleans()):
            ranges.append(Range(begin, stop, 100 + draw(st.integers(0, 2)), is_auto=True))
    return ranges


def names_of(ranges: list[Range]) -> set[int]:
    """Return the keys that stand for one phase, instant by instant."""
    inside: dict[int, Counter[int]] = defaultdict(Counter)
    for phase in (one for one in ranges if one.is_auto):
        for around in (one for one in ranges if not one.is_auto):
            shared = min(phase.end, around.end) - max(phase.start, around.start)
            if shared > 0:
                inside[around.key][phase.key] += shared
    return {key for key, counts in inside.items() if max(counts.values()) >= 0.95 * counts.total()}


def crosses(phase: Range, around: Range) -> bool:
    """Tell whether neither lies in the other."""
    starts_inside = phase.start < around.start < phase.end
    ends_inside = phase.start < around.end < phase.end
    return (starts_inside and around.end > phase.end) or (
        ends_inside and around.start < phase.start
    )


def instants_left(phase: Range, ranges: list[Range]) -> set[int]:
    """Return the instants of a phase that no range of the program names, part by part."""
    mine = [one for one in ranges if not one.is_auto]
    edges = {phase.start, phase.end}
    for around in (one for one in mine if crosses(phase, one)):
        edges |= {edge for edge in (around.start, around.end) if phase.start < edge < phase.end}
    names = names_of(ranges)
    left: set[int] = set()
    for begin, stop in pairwise(sorted(edges)):
        if not any(one.key in names and one.start <= begin and one.end >= stop for one in mine):
            left |= set(range(begin, stop))
    return left


@given(one_thread())
def test_what_is_left_is_what_instants_say(ranges: list[Range]) -> None:
    kept = merged(ranges)
    mine = Counter(one for one in ranges if not one.is_auto)
    assert Counter(one for _, _, one in kept if not one.is_auto) == mine
    for phase in (one for one in ranges if one.is_auto):
        parts = [(start, end) for start, end, one in kept if one == phase]
        reported = [instant for start, end in parts for instant in range(start, end)]
        assert len(reported) == len(set(reported))
        assert set(reported) == instants_left(phase, ranges)


@given(st.data())
def test_no_step_is_lost_or_counted_twice(data: st.DataObject) -> None:
    ranges = [
        replace(one, steps=data.draw(st.integers(-1, 5))) if one.is_auto else one
        for one in data.draw(one_thread())
    ]
    reported = sum(one.steps for one in ranges if one.steps > 0)
    assert sum(steps for *_, steps in merged_steps(ranges) if steps > 0) == reported
