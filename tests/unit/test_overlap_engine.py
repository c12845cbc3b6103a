"""The native overlap engine: streams, windows and threads give what one sweep gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlscope_analysis._sweep import (
    OverlapInputError,
    SetOverlap,
    overlap_arrays,
    overlap_streams,
    overlap_table,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

Rows = list[tuple[int, int, int]]


def rows(codes: st.SearchStrategy[int], most: int) -> st.SearchStrategy[Rows]:
    row = st.builds(
        lambda code, start, length: (code, start, start + length),
        codes,
        st.integers(-5, 40),
        st.integers(0, 12),
    )
    return st.lists(row, max_size=most)


# Few categories are looked up in a table, up to 64 by their bits, more by their members.
COUNTS = st.sampled_from([3, 40, 100])
OPERATIONS = rows(st.integers(-1, 3), most=7)


@st.composite
def interval_rows(draw: st.DrawFn) -> tuple[int, Rows]:
    count = draw(COUNTS)
    return count, draw(rows(st.integers(0, count - 1), most=30))


def columns(of: Rows) -> tuple[Any, Any, Any]:
    code, start, end = zip(*of, strict=True) if of else ((), (), ())
    return np.array(code, np.int32), np.array(start, np.int64), np.array(end, np.int64)


def everything(found: SetOverlap) -> list[list[Any]]:
    """Return all that a result tells, so that two can be compared."""
    arrays = [found.operation, found.time_ns, found.count, found.first_ns, found.last_ns]
    arrays += [*found.sets(), found.transition_from, found.transition_to, found.transition_count]
    return [array.tolist() for array in arrays]


@given(interval_rows(), OPERATIONS, st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_windows_and_threads_change_nothing(
    intervals: tuple[int, Rows], operations: Rows, windows: int, jobs: int
) -> None:
    arguments = (*columns(intervals[1]), intervals[0], columns(operations))
    whole = overlap_table(*arguments, transitions=True)
    cut = overlap_table(*arguments, transitions=True, windows=windows, jobs=jobs)
    assert everything(cut) == everything(whole)


@given(interval_rows(), OPERATIONS, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_streams_give_what_arrays_give(
    intervals: tuple[int, Rows], operations: Rows, source: random.Random
) -> None:
    count, of = intervals
    lists = [sorted(row for row in of if row[0] == code) for code in range(count)]
    nested = sorted(operations, key=lambda row: (row[1], -row[2]))
    arrays = overlap_arrays([columns(rows)[1:] for rows in lists], columns(nested))

    def chunks(rows: Rows) -> Iterator[tuple[Any, Any, Any]]:
        while rows:
            size = source.randrange(4)
            yield columns(rows[:size])
            rows = rows[size:]

    streams = [(chunk[1:] for chunk in chunks(rows)) for rows in lists]
    assert everything(overlap_streams(streams, chunks(nested))) == everything(arrays)


def trace(rng: np.random.Generator, count: int) -> tuple[Any, Any]:
    """Return starts and ends of intervals that touch nothing."""
    times = np.cumsum(rng.integers(1, 100, 2 * count))
    return times[::2].copy(), times[1::2].copy()


@pytest.mark.parametrize("count", [5, 70])
def test_long_inputs_cut_into_windows(count: int) -> None:
    rng = np.random.default_rng(count)
    categories = [trace(rng, 40_000 // count) for _ in range(count)]
    start, end = trace(rng, 3_000)
    operations = (rng.integers(0, 5, start.size, dtype=np.int32), start, end)
    whole = overlap_arrays(categories, operations, transitions=True)
    cut = overlap_arrays(categories, operations, transitions=True, windows=7, jobs=3)
    assert everything(cut) == everything(whole)
    offsets, codes = whole.sets()
    by_category = np.bincount(codes, np.repeat(whole.time_ns, np.diff(offsets)))
    assert by_category.tolist() == [(end - start).sum() for start, end in categories]


def test_a_stream_is_asked_for_one_chunk_at_a_time() -> None:
    # Both categories move on together: neither is read ahead of what the other allows.
    asked = [0, 0]

    def chunks(category: int) -> Iterator[tuple[Any, Any]]:
        for at in range(50):
            asked[category] += 1
            assert abs(asked[0] - asked[1]) <= 2
            start = np.arange(1000) * 10 + at * 10_000 + category
            yield start, start + 5

    found = overlap_streams([chunks(0), chunks(1)])
    assert asked == [50, 50]
    assert everything(found)[1] == [50_000, 200_000, 50_000]


def test_sets_of_many_members() -> None:
    count = 3000
    start = np.arange(count, dtype=np.int64)
    found = overlap_table(
        np.arange(count, dtype=np.int32), start, np.full(count, count, np.int64), count
    )
    offsets, codes = found.sets()
    assert np.diff(offsets).tolist() == list(range(1, count + 1))
    assert codes[offsets[-2] :].tolist() == list(range(count))
    assert (found.time_ns == 1).all()


def test_extreme_times() -> None:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    found = overlap_arrays([(np.array([least]), np.array([-1])), (np.array([5]), np.array([most]))])
    assert found.time_ns.tolist() == [2**63 - 1, 2**63 - 6]
    assert (found.first_ns[0], found.last_ns[1]) == (least, most)
    with pytest.raises(OverflowError, match="2\\^63"):
        overlap_arrays([(np.array([least]), np.array([most]))])


def one(start: list[int], end: list[int]) -> tuple[Any, Any]:
    return np.array(start, np.int64), np.array(end, np.int64)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([one([5, 4], [6, 9])], "not ordered by start"),
        ([one([5], [6]), one([4], [9])], "not ordered by start"),
        ([one([5], [4])], "ends before it starts"),
    ],
)
def test_a_stream_out_of_order_is_refused(chunks: list[tuple[Any, Any]], message: str) -> None:
    with pytest.raises(OverlapInputError, match=message):
        overlap_streams([iter(chunks)])


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([(0, 5, 9), (0, 4, 9)], "longer ones first"),
        ([(0, 5, 8), (0, 5, 9)], "longer ones first"),
        ([(0, 5, 4)], "ends before it starts"),
        ([(-2, 5, 6)], "code of an operation"),
    ],
)
def test_operations_out_of_order_are_refused(operations: Rows, message: str) -> None:
    with pytest.raises(OverlapInputError, match=message):
        overlap_streams([iter([one([1], [10])])], iter([columns(operations)]))


@pytest.mark.parametrize("code", [-1, 2])
def test_a_code_out_of_range_is_refused(code: int) -> None:
    with pytest.raises(OverlapInputError, match="code of an interval"):
        overlap_table(*columns([(code, 1, 2)]), 2)


def test_what_a_stream_raises_comes_out() -> None:
    def chunks() -> Iterator[tuple[Any, Any]]:
        yield one([1], [2])
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        overlap_streams([chunks()])
