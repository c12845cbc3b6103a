"""Overlap of sets: how long which categories were active together, and in which operation.

Times are integers in nanoseconds, intervals [start_ns, end_ns). docs/overlap.md defines each
number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis.cpu_list import own_cpu_count
from rlscope_analysis.errors import TraceError
from rlscope_analysis.schema.vocabulary import UNANNOTATED
from rlscope_analysis.sweep.set_columns import object_array, pandas, read_intervals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from rlscope_analysis._sweep import SetOverlap

_UNANNOTATED_CODE = -1
# Fewer are done before a second thread has started.
_PARALLEL_INTERVALS = 1_000_000
# How many pairs of sets inclusive() compares at once.
_PAIRS_AT_ONCE = 1 << 24


def overlap(
    intervals: object, *, operations: object | None = None, jobs: int | None = None
) -> pd.DataFrame:
    """Return how long each set of categories was active together, by operation.

    intervals: a table with columns category (text, Categorical or integers) and start_ns, end_ns
      (integers), in any order. Intervals of one category are united, not summed.
    operations: a table with columns name, start_ns, end_ns. The one opened last that is still open
      owns the time; of those opened together the shorter is opened later, and of equal ones the
      later row. Without it, all time is `(unannotated)`.
    jobs: threads to use; None: chosen by size. The result does not depend on it.

    Tables are pandas or polars DataFrames, pyarrow Tables, DuckDB relations, or dicts of arrays.
    Returns a row per operation and set: operation, categories (a sorted list), time_ns and count
    (int64), the number of maximal intervals with exactly this operation name and set. An empty
    list: an operation was open, no category active. Operations stand in the order in which they
    first own time, the sets of one as sorted lists do.
    Raises TraceError for missing columns, NULL, times that are no integers, ends before starts.
    """
    result = _sweep(intervals, operations, jobs, with_transitions=False)
    return _rows(result, with_extent=False)


def overlap_regions(
    intervals: object, *, operations: object | None = None, jobs: int | None = None
) -> pd.DataFrame:
    """Return the rows of overlap() with their extent.

    Adds first_ns, the start of the first interval, and last_ns, the end of the last (int64).
    """
    result = _sweep(intervals, operations, jobs, with_transitions=False)
    return _rows(result, with_extent=True)


def overlap_transitions(
    intervals: object, *, operations: object | None = None, jobs: int | None = None
) -> pd.DataFrame:
    """Return how often one set of categories followed another without a gap.

    Arguments and errors as for overlap(). Returns operation, from_categories, to_categories (sorted
    lists) and count (int64): the pairs of intervals of one operation name where the second starts
    when the first ends. What crosses from one operation into another is not counted.
    """
    result = _sweep(intervals, operations, jobs, with_transitions=True)
    of, to = result.native.transition_from, result.native.transition_to
    return pandas().DataFrame(
        {
            "operation": result.operations(of),
            "from_categories": result.native.name_lists(result.categories, of),
            "to_categories": result.native.name_lists(result.categories, to),
            "count": result.native.transition_count,
        }
    )


class _Result:
    """What the engine found, and what its codes are called."""

    def __init__(self, native: SetOverlap, categories: list[Any], operations: list[Any]) -> None:
        self.native = native
        self.categories = categories
        # The code -1 is the last one from the end.
        self._operations = object_array([*operations, UNANNOTATED])

    def operations(self, rows: NDArray[np.int64] | slice) -> NDArray[np.object_]:
        """Return the names of the operations of some rows."""
        names: NDArray[np.object_] = self._operations[self.native.operation[rows]]
        return names


def _sweep(
    intervals: object, operations: object | None, jobs: int | None, *, with_transitions: bool
) -> _Result:
    from rlscope_analysis import _sweep as engine

    of = read_intervals(intervals, "intervals", "category")
    arrays, names = _operations(operations)
    try:
        native = engine.overlap_table(
            of.code,
            of.start_ns,
            of.end_ns,
            len(of.names),
            arrays,
            jobs=_jobs(jobs, of.code.size),
            transitions=with_transitions,
        )
    except OverflowError as error:
        raise TraceError(str(error), hint="shorter intervals: 2^63 ns are 292 years") from error
    return _Result(native, of.names, names)


def _operations(
    operations: object | None,
) -> tuple[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]] | None, list[Any]]:
    """Return the columns of the operations as the engine takes them, and their names."""
    if operations is None:
        return None, []
    read = read_intervals(operations, "operations", "name")
    code = read.code
    if UNANNOTATED in read.names:
        # An operation of that name is one with the time that no operation owns.
        same = read.names.index(UNANNOTATED)
        code = np.where(code == same, np.int32(_UNANNOTATED_CODE), code)
    return (code, read.start_ns, read.end_ns), read.names


def _jobs(jobs: int | None, intervals: int) -> int:
    if jobs is None:
        return own_cpu_count() if intervals >= _PARALLEL_INTERVALS else 1
    if jobs < 1:
        raise TraceError(f"jobs is {jobs}", hint="a positive number of threads, or None")
    return jobs


def _rows(result: _Result, *, with_extent: bool) -> pd.DataFrame:
    native = result.native
    columns = {
        "operation": result.operations(slice(None)),
        "categories": native.name_lists(result.categories, np.arange(len(native))),
        "time_ns": native.time_ns,
        "count": native.count,
    }
    if with_extent:
        columns |= {"first_ns": native.first_ns, "last_ns": native.last_ns}
    return pandas().DataFrame(columns)


def inclusive(regions: pd.DataFrame) -> pd.DataFrame:
    """Return how long at least the categories of a set were active: the sizes of a Venn diagram.

    regions: what overlap() or overlap_regions() returned. Returns operation, categories, time_ns
    (int64) for every set of `regions` but the empty one, and for every single category: the sum
    over all sets of the same operation that contain it. The work grows with the square of the
    number of sets of an operation.
    """
    missing = {"operation", "categories", "time_ns"} - set(regions.columns)
    if missing:
        raise TraceError(
            f"regions has no column {', '.join(sorted(missing))}", hint="what overlap() returns"
        )
    operations: list[Any] = []
    categories: list[list[Any]] = []
    times: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for operation, rows in regions.groupby("operation", sort=False, dropna=False):
        sets = [tuple(names) for names in rows["categories"]]
        singles = {(name,) for names in sets for name in names}
        wanted = sorted(singles.union(names for names in sets if names))
        operations += [operation] * len(wanted)
        categories += map(list, wanted)
        times.append(_inclusive_times(sets, rows["time_ns"].to_numpy(np.int64), wanted))
    return pandas().DataFrame(
        {
            "operation": object_array(operations),
            "categories": object_array(categories),
            "time_ns": np.concatenate(times),
        }
    )


def _inclusive_times(
    sets: Sequence[tuple[Any, ...]], time_ns: NDArray[np.int64], wanted: Sequence[tuple[Any, ...]]
) -> NDArray[np.int64]:
    """Return for each wanted set the time of all sets that contain it."""
    place = {name: at for at, name in enumerate({name for names in wanted for name in names})}
    has = _membership(sets, place.__getitem__, len(place))
    needs = _membership(wanted, place.__getitem__, len(place))
    sizes = needs.sum(axis=1)
    times = np.empty(len(wanted), dtype=np.int64)
    step = max(1, _PAIRS_AT_ONCE // max(1, len(sets)))
    for first in range(0, len(wanted), step):
        part = slice(first, first + step)
        # A set contains another where they share all members of that one; small, so exact in float.
        contains = needs[part] @ has.T == sizes[part, np.newaxis]
        times[part] = [time_ns[row].sum() for row in contains]
    return times


def _membership(
    sets: Sequence[tuple[Any, ...]], place: Callable[[Any], int], width: int
) -> NDArray[np.float32]:
    """Return a matrix (sets, names): 1 where the set has the name."""
    matrix = np.zeros((len(sets), width), dtype=np.float32)
    for row, names in enumerate(sets):
        matrix[row, [place(name) for name in names]] = 1
    return matrix
