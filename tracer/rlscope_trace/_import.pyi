"""What is too slow in Python of importing the files of other profilers (see tracer/native/import).

Times are nanoseconds.
"""

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
    parent: NDArray[int64], key: NDArray[int64]
) -> tuple[NDArray[int32], NDArray[int32], NDArray[int64], NDArray[int32]]:
    """Give the distinct stacks of ranges numbers, from 1; parents come before their children.

    parent: rows as `nest` returns them; key: what tells ranges with the same parent apart.
    Returns the path of each row; then per path its parent path (0: none), key and depth.
    """
