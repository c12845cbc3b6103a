"""The overlap engine against SQL and against ticks, on inputs full of ties and empty intervals."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlap_reference import UNANNOTATED, Overlap, Ranges, overlap_by_sql, overlap_by_ticks
from rlscope_analysis import overlap, overlap_regions, overlap_transitions

pd = pytest.importorskip("pandas")


def ranges(names: st.SearchStrategy[str], longest: int, most: int) -> st.SearchStrategy[Ranges]:
    """Generate rows of (name, start, end): empty, identical, touching and negative ones too."""
    row = st.builds(
        lambda name, start, length: (name, start, start + length),
        names,
        st.integers(-6, 24),
        st.integers(0, longest),
    )
    return st.lists(row, max_size=most)


INTERVALS = ranges(st.sampled_from("ABCDE"), longest=9, most=14)
OPERATIONS = ranges(st.sampled_from(["x", "y", "z", UNANNOTATED]), longest=20, most=7)
# More categories than bits in a word.
MANY = ranges(st.integers(100, 190).map(str), longest=12, most=60)


def table(name: str, rows: Ranges) -> pd.DataFrame:
    columns = [name, "start_ns", "end_ns"]
    return pd.DataFrame(rows, columns=columns).astype({"start_ns": "int64", "end_ns": "int64"})


def computed(intervals: Ranges, operations: Ranges) -> Overlap:
    """Return what the public functions give, in the shape of the references."""
    tables = (table("category", intervals), table("name", operations))
    regions = overlap_regions(tables[0], operations=tables[1])
    pairs = overlap_transitions(tables[0], operations=tables[1])
    return Overlap(
        {
            (operation, tuple(names)): tuple(numbers)
            for operation, names, *numbers in regions.itertuples(index=False, name=None)
        },
        {
            (operation, tuple(of), tuple(to)): count
            for operation, of, to, count in pairs.itertuples(index=False, name=None)
        },
    )


@given(INTERVALS, OPERATIONS)
@settings(max_examples=200, deadline=None)
def test_engine_sql_and_ticks_agree(intervals: Ranges, operations: Ranges) -> None:
    ticks = overlap_by_ticks(intervals, operations)
    assert computed(intervals, operations) == ticks
    assert overlap_by_sql(intervals, operations) == ticks


@given(MANY, OPERATIONS)
@settings(max_examples=100, deadline=None)
def test_many_categories(intervals: Ranges, operations: Ranges) -> None:
    every = [(str(name), 0, 1) for name in range(100, 190)]
    expected = overlap_by_ticks(intervals + every, operations)
    assert computed(intervals + every, operations) == expected


def test_long_inputs_agree_with_sql() -> None:
    # Long enough for many blocks, with categories of very different density.
    source = random.Random(6)
    intervals: Ranges = []
    for name, count in (("A", 4000), ("B", 1500), ("C", 300), ("D", 3)):
        starts = [source.randrange(60_000) for _ in range(count)]
        longest = 120_000 // count
        intervals += [(name, start, start + source.randrange(longest)) for start in starts]
    operations = [
        (source.choice("xyz"), start, start + source.randrange(400))
        for start in (source.randrange(60_000) for _ in range(700))
    ]
    assert computed(intervals, operations) == overlap_by_sql(intervals, operations)


@given(INTERVALS, OPERATIONS, st.integers(-(2**61), 2**61), st.integers(1, 2**55))
@settings(max_examples=100, deadline=None)
def test_times_may_be_large_and_far_apart(
    intervals: Ranges, operations: Ranges, shift: int, scale: int
) -> None:
    def moved(rows: Ranges) -> Ranges:
        return [(name, start * scale + shift, end * scale + shift) for name, start, end in rows]

    small = computed(intervals, operations)
    large = computed(moved(intervals), moved(operations))
    assert large.transitions == small.transitions
    assert large.regions == {
        region: (time * scale, count, first * scale + shift, last * scale + shift)
        for region, (time, count, first, last) in small.regions.items()
    }


@given(INTERVALS, OPERATIONS)
@settings(max_examples=100, deadline=None)
def test_parts_add_up(intervals: Ranges, operations: Ranges) -> None:
    regions = computed(intervals, operations).regions
    assert all(time > 0 and count > 0 for time, count, _, _ in regions.values())
    for category in {name for name, _, _ in intervals}:
        mine = sum(row[0] for (_, names), row in regions.items() if category in names)
        assert mine == union_of([row for row in intervals if row[0] == category])
    assert sum(row[0] for row in regions.values()) == union_of(intervals + operations)
    active = sum(row[0] for (_, names), row in regions.items() if names)
    assert active == union_of(intervals)


def union_of(rows: Ranges) -> int:
    """Return the length of the union of all ranges."""
    return len(set(itertools.chain(*(range(start, end) for _, start, end in rows))))


@given(INTERVALS, OPERATIONS, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_rows_does_not_matter(
    intervals: Ranges, operations: Ranges, source: random.Random
) -> None:
    # Of operations with one start and end the later row is the inner one.
    different = list({(start, end): (name, start, end) for name, start, end in operations}.values())
    shuffled = source.sample(intervals, len(intervals)), source.sample(different, len(different))
    first = overlap_regions(table("category", intervals), operations=table("name", different))
    second = overlap_regions(table("category", shuffled[0]), operations=table("name", shuffled[1]))
    pd.testing.assert_frame_equal(first, second)


@given(INTERVALS, OPERATIONS)
@settings(max_examples=100, deadline=None)
def test_rows_are_in_order(intervals: Ranges, operations: Ranges) -> None:
    regions = overlap_regions(table("category", intervals), operations=table("name", operations))
    begins = regions.groupby("operation")["first_ns"].min().to_dict()
    places = [
        (begins[operation], names)
        for operation, names in zip(regions["operation"], regions["categories"], strict=True)
    ]
    assert places == sorted(places)
    assert all(names == sorted(names) for names in regions["categories"])


@given(INTERVALS, OPERATIONS)
@settings(max_examples=50, deadline=None)
def test_names_may_be_categorical_or_integers(intervals: Ranges, operations: Ranges) -> None:
    of, during = table("category", intervals), table("name", operations)
    expected = overlap(of, operations=during)
    unordered = pd.CategoricalDtype(["unused", *"EDCBA"])
    categorical = of.astype({"category": unordered}), during.astype({"name": "category"})
    found = overlap(categorical[0], operations=categorical[1])
    pd.testing.assert_frame_equal(found, expected)
    numbered = of.assign(category=[ord(name) for name in of["category"]])
    found = overlap(numbered, operations=during)
    assert found["categories"].tolist() == [
        [ord(name) for name in names] for names in expected["categories"]
    ]
    assert np.array_equal(found["time_ns"], expected["time_ns"])
