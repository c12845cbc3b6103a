"""What docs/flow.md says of segments, from what stands in the derived tables and in `thread`."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from coded import coded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import duckdb

    from rlscope_analysis.sweep.segments import Segments

Row = tuple[int, ...]
# thread_id, start_ns, end_ns, path_id, state, layer, wait, gpu
_SUMS = f"""
SELECT thread_id, path_id, state, layer, wait, gpu, time_ns, count, first_ns, last_ns
FROM {coded("thread_overlap_coded")}
"""
_LIVES = """
SELECT thread_id, greatest(start_ns, {start_ns}), least(end_ns, {end_ns}) FROM thread
WHERE greatest(start_ns, {start_ns}) < least(end_ns, {end_ns})
ORDER BY coalesce(process_id, 0), thread_id
"""


def rows_of(stream: Segments) -> list[Row]:
    table = pa.RecordBatchReader.from_stream(stream).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check_tiling(
    connection: duckdb.DuckDBPyConnection,
    rows: Sequence[Row],
    start_ns: int = -(2**62),
    end_ns: int = 2**62,
) -> None:
    """Hold segments to the lives of their threads: in order, no gap, no overlap, none too short."""
    lives = connection.execute(_LIVES.format(start_ns=start_ns, end_ns=end_ns)).fetchall()
    assert list(dict.fromkeys(row[0] for row in rows)) == [thread for thread, *_ in lives]
    for before, row in pairwise(rows):
        if before[0] == row[0]:
            assert before[2] == row[1], (before, row)
            assert before[3:] != row[3:], "neighbours that agree are one"
    ends = {row[0]: row[2] for row in rows}
    starts = {row[0]: row[1] for row in reversed(rows)}
    assert [(thread, starts[thread], ends[thread]) for thread, *_ in lives] == lives
    assert all(row[1] < row[2] for row in rows)


def sums_of(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Add segments up to the rows of thread_overlap_coded."""
    time_ns: Counter[Row] = Counter()
    count: Counter[Row] = Counter()
    first: dict[Row, int] = {}
    last: dict[Row, int] = {}
    for thread, start, end, *key in rows:
        place = (thread, *key)
        time_ns[place] += end - start
        count[place] += 1
        first.setdefault(place, start)
        last[place] = end
    return sorted((*key, time_ns[key], count[key], first[key], last[key]) for key in time_ns)


def stored_sums(connection: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    return sorted(connection.execute(_SUMS).fetchall())
