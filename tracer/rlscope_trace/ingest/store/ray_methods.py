"""Methods of async actors of Ray, as the cluster tells of them: they overlap in one thread.

Titles cannot tell them apart. What the cluster says has the wall clock of the worker, which is put
on the clock of the trace by the pairs of both that the recorder took.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_trace.texts import storable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import duckdb
    from numpy.typing import NDArray

_MOST_ROWS = 100_000
_MOST_LETTERS = 200
_MOST_NS = 1 << 62
_LIVES = """
SELECT pid, process_id, start_ns, end_ns FROM process
WHERE process_id IN (SELECT unnest(?::INTEGER[])) ORDER BY process_id
"""


@dataclass(frozen=True, slots=True)
class RayMethod:
    """A method of an async actor; times in ns, on the clock of the trace."""

    process_id: int
    start_ns: int
    end_ns: int
    name: str


def ray_methods(
    reported: object, con: duckdb.DuckDBPyConnection, overlapping: Collection[int]
) -> list[RayMethod]:
    """Return what is known of these processes, as far as they lived and were recorded.

    reported: of the facts of a session: "methods" are rows of pid, name, start and end (ns, wall
    clock). What is not of that shape is left out. The processes and the clock are written.
    """
    rows = list(_rows(reported)) if overlapping else []
    if not rows:
        return []
    clocks = con.execute("SELECT ts_ns, realtime_ns FROM clock ORDER BY ts_ns").fetchnumpy()
    if not len(clocks["ts_ns"]):
        return []
    # Of several that had the pid the last one counts: the cluster tells of now.
    lives = {pid: rest for pid, *rest in con.execute(_LIVES, [list(overlapping)]).fetchall()}
    rows = [row for row in rows if row[0] in lives]
    starts, ends = (
        _on_our_clock(np.array([row[at] for row in rows], dtype=np.int64), clocks) for at in (2, 3)
    )
    found = []
    for (pid, name, *_), start_ns, end_ns in zip(rows, starts.tolist(), ends.tolist(), strict=True):
        process_id, first_ns, last_ns = lives[pid]
        if start_ns < last_ns and end_ns > first_ns:
            found.append(RayMethod(process_id, max(start_ns, first_ns), min(end_ns, last_ns), name))
    return found


def _rows(reported: object) -> Iterator[tuple[int, str, int, int]]:
    rows = reported.get("methods") if isinstance(reported, dict) else None
    for row in rows[:_MOST_ROWS] if isinstance(rows, list) else ():
        if isinstance(row, list) and [type(value) for value in row] == [int, str, int, int]:
            pid, name, start_ns, end_ns = row
            if 0 < start_ns <= end_ns < _MOST_NS:
                yield pid, str(storable(name[:_MOST_LETTERS])), start_ns, end_ns


def _on_our_clock(
    realtime_ns: NDArray[np.int64], clocks: Mapping[str, NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Return instants of the wall clock on that of the trace: between two pairs on a line."""
    pairs_ns, offsets_ns = clocks["realtime_ns"], clocks["realtime_ns"] - clocks["ts_ns"]
    order = np.argsort(pairs_ns, kind="stable")
    # From the first one on: floats have 53 bits, and nanoseconds since 1970 have 61.
    first_ns, offset_ns = int(pairs_ns[order[0]]), int(offsets_ns[order[0]])
    changes = np.interp(
        (realtime_ns - first_ns).astype(float),
        (pairs_ns[order] - first_ns).astype(float),
        (offsets_ns[order] - offset_ns).astype(float),
    )
    found: NDArray[np.int64] = realtime_ns - offset_ns - np.round(changes).astype(np.int64)
    return found
