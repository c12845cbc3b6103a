"""What the sweep of a part of a trace gives, and how parts become a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    Column: TypeAlias = npt.NDArray[Any]

_LATEST_NS = np.iinfo(np.int64).max
_EARLIEST_NS = np.iinfo(np.int64).min
# Of each table, in the order the sweep gives them.
_FAULTS = ("outside", "clipped", "reversed", "crossing")


@dataclass(frozen=True, slots=True)
class ThreadOverlap:
    """The rows of thread_overlap_coded, transition_coded and sample_count_coded, as numpy columns.

    overlap: sorted by thread_id, path_id, state, layer, wait, gpu; no two rows share all of these.
    transitions: sorted by thread_id, path_id, is_probed, from_layer, to_layer.
    samples: sorted by thread_id, path_id, call_layer, layer, gpu.
    faults: how many rows were not as the schema promises, by table and fault; only those above 0.
      outside: no part of the row lies in the lifetime of its thread; clipped: a part does not;
      reversed: it ends before it starts; crossing: it starts inside another of its thread and ends
      after that one (of states and waits: it starts inside another at all);
      unknown_thread: its thread or process is not in table thread.
      Of table thread: no_lifetime, a thread whose start or end is NULL.
    rows_out_of_order: rows that were not stored where the schema says; they were sorted.
    """

    overlap: dict[str, Column]
    transitions: dict[str, Column]
    samples: dict[str, Column]
    faults: dict[tuple[str, str], int]
    rows_out_of_order: int = 0


class Part(NamedTuple):
    """What _sweep.sweep_threads gives: columns, and faults by table."""

    overlap: tuple[Column, ...]  # thread_id, key, time_ns, count, first_ns, last_ns
    transitions: tuple[Column, ...]  # the same; only key and count say something
    samples: tuple[Column, ...]  # the same
    ends: tuple[Column, ...]  # thread_id, start_ns, end_ns, first_key, last_key
    faults: dict[str, tuple[int, int, int, int]]
    rows_out_of_order: int = 0


def join(parts: Iterable[Part]) -> Part:
    """Return the part that the parts make up together: associative, in any order."""
    parts = list(parts)
    ends, seams = _joined_ends(_stacked([part.ends for part in parts], _NO_ENDS))
    faults: dict[str, tuple[int, int, int, int]] = {}
    for part in parts:
        for table, counts in part.faults.items():
            before = faults.get(table, (0, 0, 0, 0))
            faults[table] = tuple(map(sum, zip(before, counts, strict=True)))  # type: ignore[assignment]
    return Part(
        overlap=_added_up(_stacked([*(part.overlap for part in parts), seams], _NO_TOTALS)),
        transitions=_added_up(_stacked([part.transitions for part in parts], _NO_TOTALS)),
        samples=_added_up(_stacked([part.samples for part in parts], _NO_TOTALS)),
        ends=ends,
        faults=faults,
        rows_out_of_order=sum(part.rows_out_of_order for part in parts),
    )


def present(part: Part, strays: Counter[tuple[str, str]]) -> ThreadOverlap:
    """Return the columns as the tables have them; `strays`: faults found outside the sweep."""
    faults = Counter(strays)
    for table, counts in part.faults.items():
        faults.update({(table, name): n for name, n in zip(_FAULTS, counts, strict=True)})
    thread_id, key, *sums = part.overlap
    entered_by, entry, _, entries, _, _ = part.transitions
    sampled, place, _, samples, _, _ = part.samples
    return ThreadOverlap(
        overlap={
            "thread_id": thread_id,
            "path_id": _path(key),
            "state": _byte(key, 24),
            "layer": _byte(key, 16),
            "wait": _byte(key, 8),
            "gpu": _byte(key, 0),
            **dict(zip(("time_ns", "count", "first_ns", "last_ns"), sums, strict=True)),
        },
        transitions={
            "thread_id": entered_by,
            "path_id": _path(entry),
            "is_probed": _byte(entry, 16) == 1,
            "from_layer": _byte(entry, 8),
            "to_layer": _byte(entry, 0),
            "count": entries,
        },
        samples={
            "thread_id": sampled,
            "path_id": _path(place),
            "call_layer": _byte(place, 16),
            "gpu": _byte(place, 0),
            "layer": _byte(place, 8),
            "count": samples,
        },
        faults={fault: count for fault, count in faults.items() if count},
        rows_out_of_order=part.rows_out_of_order,
    )


def _path(key: Column) -> Column:
    return (key >> np.uint64(32)).astype(np.uint32).view(np.int32)


def _byte(key: Column, shift: int) -> Column:
    return (key >> np.uint64(shift)).astype(np.uint8)


def _columns(*types: type) -> tuple[Column, ...]:
    return tuple(np.empty(0, dtype) for dtype in types)


_NO_TOTALS = _columns(np.int32, np.uint64, np.int64, np.int64, np.int64, np.int64)
_NO_ENDS = _columns(np.int32, np.int64, np.int64, np.uint64, np.uint64)


def _stacked(tables: Sequence[tuple[Column, ...]], empty: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(np.concatenate(columns) for columns in zip(empty, *tables, strict=True))


def _joined_ends(ends: tuple[Column, ...]) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the ends of adjoining parts taken together, and a row for each interval that was cut.

    Such a row takes one off the count: both parts have counted their piece of the interval.
    """
    order = np.lexsort((ends[1], ends[0]))
    thread_id, start_ns, end_ns, first_key, last_key = (column[order] for column in ends)
    adjoins = (thread_id[1:] == thread_id[:-1]) & (start_ns[1:] == end_ns[:-1])
    cut = adjoins & (first_key[1:] == last_key[:-1])
    seams = int(np.count_nonzero(cut))
    starts = np.concatenate(([True], ~adjoins))[: len(thread_id)]
    stops = np.concatenate((~adjoins, [True]))[: len(thread_id)]
    joined = (
        thread_id[starts], start_ns[starts], end_ns[stops], first_key[starts], last_key[stops],
    )  # fmt: skip
    return joined, (
        thread_id[1:][cut],
        first_key[1:][cut],
        np.zeros(seams, np.int64),
        np.full(seams, -1, np.int64),
        np.full(seams, _LATEST_NS, np.int64),
        np.full(seams, _EARLIEST_NS, np.int64),
    )


def _added_up(rows: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return one row per thread and key, sorted by both."""
    if not len(rows[0]):
        return rows
    order = np.lexsort((rows[1], rows[0]))
    thread_id, key, time_ns, count, first_ns, last_ns = (column[order] for column in rows)
    is_new = (thread_id[1:] != thread_id[:-1]) | (key[1:] != key[:-1])
    starts = np.concatenate(([0], np.flatnonzero(is_new) + 1))
    return (
        thread_id[starts],
        key[starts],
        np.add.reduceat(time_ns, starts),
        np.add.reduceat(count, starts),
        np.minimum.reduceat(first_ns, starts),
        np.maximum.reduceat(last_ns, starts),
    )
