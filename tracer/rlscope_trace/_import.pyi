"""What is too slow in Python of importing the files of other profilers (see tracer/native/import).

Times are nanoseconds.
"""

from collections.abc import Callable
from typing import Any

from numpy import int32, int64
from numpy.typing import NDArray

def nest(
    thread_id: NDArray[int32], start_ns: NDArray[int64], end_ns: NDArray[int64]
) -> tuple[NDArray[int32], NDArray[int64], int, int]:
    """Find which range lies in which, of rows in the order of (thread, start, -end).

    Returns per row how many ranges are open around it and the row of the one opened last that is
    still open (-1: none); then how many ranges end after one that is around them, and when the
    first of those begins. Raises ValueError if the rows are not in order.
    """

def intern_paths(
    parent: NDArray[int64], key: NDArray[int64], max_paths: int = ..., max_depth: int = ...
) -> tuple[NDArray[int32], NDArray[int32], NDArray[int64], NDArray[int32]]:
    """Give the distinct stacks of ranges numbers, from 1; parents come before their children.

    parent: rows as `nest` returns them; key: what tells ranges with the same parent apart.
    Ranges of further paths than max_paths, in max_depth others, or in such ranges get path 0.
    Returns the path of each row; then per path its parent path (0: none), key and depth.
    """

MISSING: int
"""What stands for NULL in the columns of read_kineto."""

def read_kineto(path: str, progress: Callable[[int, int], object]) -> dict[str, Any]:
    """Read a file of the PyTorch profiler, plain or gzipped, up to its end or its first damage.

    progress(position, size): called every quarter of a mebibyte, in bytes of the file.
    Returns what importers.kineto_file.KinetoFile holds; KeyboardInterrupt at Ctrl-C, OSError if
    the file cannot be read.
    """

def parse_decimal(text: str, shift: int) -> tuple[int, bool] | None:
    """Read a decimal number, shifted by so many places: exact, half away from zero.

    Returns the integer, and whether digits behind its last one were not zero; None if the text is
    no number or does not fit into 64 bits.
    """
