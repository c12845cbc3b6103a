from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[np.generic]

# ThreadSweep: the overlap of everything that is known of each thread (docs/breakdown.md).

_Table: TypeAlias = Any  # a PyCapsule, or four arrays

class OrderError(RuntimeError):
    """A table is not in the order of (process, thread, start); its name is the message."""

class ColumnError(RuntimeError):
    """A table has other columns than expected, holds NULL, or cannot be read."""

class Cancelled(RuntimeError):  # noqa: N818 - no error: somebody asked for it
    """SweepProgress.cancel was called."""

class SweepProgress:
    """Seen by one thread while others sweep."""

    @property
    def rows(self) -> int:
        """Rows read so far."""
    def cancel(self) -> None:
        """Let every sweep with this progress raise Cancelled at its next batch."""

def sweep_threads(
    threads: Sequence[_Array],
    tables: Sequence[_Table],
    *,
    window_start_ns: int,
    window_end_ns: int,
    probed_ns: Sequence[int],
    progress: SweepProgress,
    segments: SegmentWriter | None = None,
) -> tuple[
    tuple[_Array, ...],
    tuple[_Array, ...],
    tuple[_Array, ...],
    tuple[_Array, ...],
    dict[str, tuple[int, int, int, int]],
]:
    """Sweep threads over the tables, in the order of sweep.thread_plan.SWEPT_TABLES.

    threads: process_id, thread_id (int32), start_ns, end_ns (int64), state_is_measured (bool),
      gpu_from_ns (int64: since when GPU activity was measured), in the order of the tables.
    tables: of each an Arrow C stream, as a PyCapsule, or numpy arrays: id int32, start_ns int64,
      end_ns int64, value uint8 (of operations int32). Rows of other threads are passed over.
    probed_ns: by layer, 8 in all, since when all calls into it were recorded.
    segments: gets every segment of the threads, in their order; it waits for whoever reads them.
    Returns the overlap, the transitions and the samples (thread_id, key, time_ns, count, first_ns,
    last_ns), the first and last key of each thread (thread_id, start_ns, end_ns, first_key,
    last_key), and by table the rows that were outside, clipped, reversed and crossing. A key holds
    the path in its upper 32 bits, below it a byte each for state, layer, wait and GPU; of a
    transition, in the lowest three, is_probed, from_layer and to_layer; of samples, in the lowest
    three, the layer of the call they fell into, their own and the GPU. Releases the GIL. Raises
    OrderError, ColumnError, Cancelled.
    """

class SegmentWriter:
    """Takes the segments of one sweep after the other; neighbours that agree become one."""

    def finish(self, error: str = "") -> None:
        """Tell the reader that there are no more; error: because the sweep failed."""
    def close(self) -> None:
        """Let the sweep raise Cancelled, as if nobody read any more."""

def segment_stream(
    start: Callable[[SegmentWriter], None],
    only: tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
) -> object:
    """Return an Arrow C stream, as a PyCapsule, of what somebody writes while it is read.

    Columns: thread_id, start_ns, end_ns, path_id, state, layer, wait, gpu, of which the last four
    are uint8. start(writer) is called when the first batch is asked for, from whatever thread asks;
    it must return and let another thread write. Sweeps raise Cancelled once nobody reads.
    only: thread_id, start_ns, end_ns of the intervals that are wanted; segments are cut at their
    ends. Raises ValueError where those of a thread overlap or are not in order.
    """

def count_ids(stream: object, table: str) -> tuple[dict[int, int], int]:
    """Return how many rows of a column have each value, and how many have none.

    stream: an Arrow C stream of one INTEGER column; this is fast where equal values stand together.
    Releases the GIL. Raises ColumnError, in which `table` is the name.
    """

# The overlap of sets (docs/overlap.md): set_overlap_bindings.cpp. Times are int64 nanoseconds.

_Times: TypeAlias = npt.NDArray[np.int64]
_Codes: TypeAlias = npt.NDArray[np.int32]

class OverlapInputError(ValueError):
    """An end before its start, a code out of range, or a stream out of order."""

class SetOverlap:
    """Rows in order: operations by the first instant they own, sets as sorted lists of codes."""

    def __len__(self) -> int:
        """Rows."""
    @property
    def operation(self) -> _Codes:
        """Of each row; -1: no operation was open, or one with code -1."""
    @property
    def time_ns(self) -> _Times: ...
    @property
    def count(self) -> _Times:
        """Maximal intervals with exactly this operation and set."""
    @property
    def first_ns(self) -> _Times:
        """Start of the first interval."""
    @property
    def last_ns(self) -> _Times:
        """End of the last interval."""
    def sets(self) -> tuple[_Times, _Codes]:
        """Return (offsets, codes): the set of row i is codes[offsets[i]:offsets[i + 1]]."""
    def name_lists(self, names: list[Any], positions: _Times) -> npt.NDArray[np.object_]:
        """Return for each of some rows a new list of names; names[code] are shared."""
    @property
    def transition_from(self) -> _Times:
        """Positions of rows; the transitions are in their order."""
    @property
    def transition_to(self) -> _Times: ...
    @property
    def transition_count(self) -> _Times: ...

def overlap_table(
    code: _Codes,
    start: _Times,
    end: _Times,
    category_count: int,
    operations: tuple[_Codes, _Times, _Times] | None = None,
    *,
    jobs: int = 1,
    windows: int = 0,
    transitions: bool = False,
) -> SetOverlap:
    """Overlap of one table of intervals; codes are 0 .. category_count - 1, all arrays (n,).

    operations: (code, start, end), codes from -1, which stands for unannotated time. Neither table
      needs an order; that of operations tells which of those with one start and end is inner.
    jobs: threads. windows: pieces of time that are swept on their own, 0: chosen by size. Neither
      changes the result. transitions: count them too.
    Releases the GIL. Raises OverlapInputError, and OverflowError for more than 2^63 ns.
    """

def overlap_arrays(
    categories: Sequence[tuple[_Times, _Times]],
    operations: tuple[_Codes, _Times, _Times] | None = None,
    *,
    jobs: int = 1,
    windows: int = 0,
    transitions: bool = False,
) -> SetOverlap:
    """As overlap_table, of one (starts, ends) per category: no copy where starts ascend."""

def overlap_streams(
    categories: Sequence[Iterator[tuple[_Times, _Times]]],
    operations: Iterator[tuple[_Codes, _Times, _Times]] | None = None,
    *,
    transitions: bool = False,
) -> SetOverlap:
    """As overlap_arrays, of chunks that are asked for as they are needed and not kept.

    Within a category starts ascend; so do those of operations, and of those that start together the
    longer ones come first. Raises OverlapInputError where they do not.
    """

# Operations flattened (sweep/active_set.py): flatten_bindings.cpp.

def flatten_operations(code: _Codes, start: _Times, end: _Times) -> tuple[_Codes, _Times, _Times]:
    """Turn the operations of one thread into the intervals that each owns, in order.

    Of the same order as the input where starts and ends are equal. The operation opened last that
    is still open owns the time; time without one is in no interval.
    """
