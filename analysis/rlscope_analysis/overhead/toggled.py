"""What events cost by what a program is spared without them: method toggled.

For short times at random the recorder takes some probes away. What an instance of an operation
takes of the CPU then, against those just before and after, is what their events cost. It owes
nothing to any loop, and is a check of what does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from rlscope_analysis.overhead.cost import Cost, ratio, t_quantile
from rlscope_analysis.overhead.place import PROBED_CUDA_SQL, Axis
from rlscope_analysis.schema.facts.qualities import quality

if TYPE_CHECKING:
    import duckdb
    import numpy.typing as npt

    Column: TypeAlias = npt.NDArray[Any]

# Windows without the probes, by what they take away; and all times that are not as ever.
_EVENTS = {"samples": "sample", "calls": "call"}
FEWEST_WINDOWS = 8
# Instances on either side of the comparison, in a window.
_FEWEST_INSTANCES = 2
# What is further from the middle of all windows is taken for a disturbance, in deviations.
_FARTHEST = 4 * 1.4826
_WINDOWS_SQL = """
SELECT start_ns, end_ns FROM calibration_window
WHERE probes = ? AND end_ns > start_ns AND start_ns >= ? AND end_ns <= ? ORDER BY start_ns
"""
# Probes come and go at once, but not in no time: neither with them nor without.
_OTHER_SQL = """
SELECT start_ns, end_ns, probes = 'changing' FROM calibration_window WHERE end_ns > start_ns
"""
# Time is cut into bins of 2^23 ns (8 ms): those around the windows, and what begins in them.
_BIN_SQL = """
CREATE OR REPLACE TEMP TABLE _toggled_bin AS
SELECT DISTINCT unnest(range(from_ns >> 23, (to_ns >> 23) + 1)) AS number
FROM (SELECT unnest(?::BIGINT[]) AS from_ns, unnest(?::BIGINT[]) AS to_ns)
"""
_INSTANCES_SQL = """
SELECT thread_id, path_id, start_ns, end_ns FROM operation_coded
WHERE start_ns >> 23 IN (SELECT number FROM _toggled_bin)
  AND end_ns >> 23 IN (SELECT number FROM _toggled_bin) AND end_ns > start_ns
  AND path_id NOT IN (SELECT path_id FROM operation_path WHERE source = 'lost')
"""
_RUNNING_SQL = """
SELECT thread_id, start_ns, end_ns FROM thread_state_coded
WHERE state = 0 AND (
  start_ns >> 23 IN (SELECT number FROM _toggled_bin)
  OR end_ns >> 23 IN (SELECT number FROM _toggled_bin) OR end_ns - start_ns > {longest}
)
"""
_EVENTS_SQL = {
    "sample": "SELECT thread_id, ts_ns FROM cpu_sample_coded"
    " WHERE ts_ns >> 23 IN (SELECT number FROM _toggled_bin)",
    "call": "SELECT thread_id, start_ns FROM"  # noqa: S608 - a query of our own
    " (SELECT thread_id, start_ns FROM native_call_coded"
    f" UNION ALL SELECT thread_id, start_ns FROM ({PROBED_CUDA_SQL}))"
    " WHERE start_ns >> 23 IN (SELECT number FROM _toggled_bin)",
}


class _Instances(NamedTuple):
    """Instances of operations near the windows, a column each."""

    path: Column
    start_ns: Column
    end_ns: Column
    cpu_ns: Column
    events: Column


def toggled(connection: duckdb.DuckDBPyConnection, span: tuple[int, int]) -> list[Cost]:
    """Return a row for each kind of window that the recording has; span: of the trace."""
    found = []
    for probes, event in _EVENTS.items():
        windows = connection.execute(_WINDOWS_SQL, [probes, *span]).fetchnumpy()
        starts, ends = windows.values()
        if not len(starts):
            continue
        if len(starts) < FEWEST_WINDOWS:
            found.append(_few(event, len(starts)))
            continue
        others = tuple(connection.execute(_OTHER_SQL).fetchnumpy().values())
        instances = _read(connection, event, starts, ends)
        found.append(_estimated(event, _differences(instances, starts, ends, others)))
    return found


def _few(event: str, windows: int) -> Cost:
    return Cost(event, None, "toggled", n=windows, quality=quality("few_toggled", windows))


def _read(
    connection: duckdb.DuckDBPyConnection, event: str, starts: Column, ends: Column
) -> _Instances:
    """Read what happened in the windows, and for as long before and after each."""
    lengths = ends - starts
    connection.execute(_BIN_SQL, [(starts - lengths).tolist(), (ends + lengths).tolist()])
    longest = int(3 * lengths.min())
    thread, path, start_ns, end_ns = _columns(connection, _INSTANCES_SQL)
    running = _columns(connection, _RUNNING_SQL.format(longest=longest))
    events = _columns(connection, _EVENTS_SQL[event])
    connection.execute("DROP TABLE temp._toggled_bin")
    if not len(thread):
        return _Instances(path, start_ns, end_ns, start_ns, start_ns)
    base_ns, last_ns = int(start_ns.min()), int(end_ns.max())
    axis = Axis(np.unique(thread).astype(np.int64), base_ns, last_ns - base_ns + 2)
    number = axis.numbers(thread)
    first, last = axis.places(number, start_ns), axis.places(number, end_ns)
    on_axis = _placed(axis, events)[0]
    return _Instances(
        path, start_ns, end_ns,
        cpu_ns=_ran_until(axis, running, last) - _ran_until(axis, running, first),
        events=np.searchsorted(on_axis, last) - np.searchsorted(on_axis, first),
    )  # fmt: skip


def _columns(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Column, ...]:
    return tuple(connection.execute(query).fetchnumpy().values())


def _placed(axis: Axis, columns: tuple[Column, ...]) -> list[Column]:
    """Return the places of times of the threads on the axis, sorted by the first of them."""
    number = axis.numbers(columns[0])
    known = number >= 0
    places = [axis.places(number[known], times[known]) for times in columns[1:]]
    order = np.argsort(places[0], kind="stable")
    return [place[order] for place in places]


def _ran_until(axis: Axis, running: tuple[Column, ...], places: Column) -> Column:
    """Return for how long threads had run at each place: of one thread, differences are right."""
    starts, ends = _placed(axis, running)
    before = np.concatenate([[0], np.cumsum(ends - starts)])
    at = np.searchsorted(starts, places, side="right")
    starts, ends = np.append(starts, 0), np.append(ends, 0)
    # What is open at the place, counted up to it.
    unfinished = np.where(at > 0, np.maximum(ends[at - 1] - places, 0), 0)
    return before[at] - unfinished


def _differences(
    instances: _Instances, starts: Column, ends: Column, others: tuple[Column, ...]
) -> list[tuple[float, float]]:
    """Return by window: CPU time and events of an instance, with the probes less without them.

    Of the operation that has most of the CPU time that lies in complete instances inside windows.
    """
    windows = [
        (_without(instances, start, end, others), _around(instances, start, end, others))
        for start, end in zip(starts, ends, strict=True)
    ]
    if not len(instances.path):
        return []
    within = np.zeros(int(instances.path.max()) + 1)
    for off, _ in windows:
        np.add.at(within, instances.path[off], instances.cpu_ns[off])
    chosen = instances.path == int(within.argmax())
    found = []
    for off, on in windows:
        off, on = off & chosen, on & chosen
        if min(off.sum(), on.sum()) >= _FEWEST_INSTANCES:
            weight = off.sum() * on.sum() / (off.sum() + on.sum())
            cpu_ns, events = (
                weight * (column[on].mean() - column[off].mean())
                for column in (instances.cpu_ns, instances.events)
            )
            found.append((float(cpu_ns), float(events)))
    return found


def _inside(instances: _Instances, start_ns: int, end_ns: int) -> npt.NDArray[np.bool_]:
    return (instances.start_ns >= start_ns) & (instances.end_ns <= end_ns)


def _without(
    instances: _Instances, start_ns: int, end_ns: int, others: tuple[Column, ...]
) -> npt.NDArray[np.bool_]:
    """Choose what lies inside a window, while no probes come or go."""
    changing = tuple(column[others[2]] for column in others[:2])
    return _clear_of(changing, instances, _inside(instances, start_ns, end_ns), start_ns, end_ns)


def _around(
    instances: _Instances, start_ns: int, end_ns: int, others: tuple[Column, ...]
) -> npt.NDArray[np.bool_]:
    """Choose what lies just before or after a window, and touches no time that is not as ever."""
    length_ns = end_ns - start_ns
    first_ns, last_ns = start_ns - length_ns, end_ns + length_ns
    near = _inside(instances, first_ns, last_ns)
    return _clear_of(others[:2], instances, near, first_ns, last_ns)


def _clear_of(
    times: tuple[Column, ...],
    instances: _Instances,
    chosen: npt.NDArray[np.bool_],
    first_ns: int,
    last_ns: int,
) -> npt.NDArray[np.bool_]:
    starts, ends = times
    touched = (starts < last_ns) & (ends > first_ns)
    for start_ns, end_ns in zip(starts[touched], ends[touched], strict=True):
        chosen = chosen & ((instances.end_ns <= start_ns) | (instances.start_ns >= end_ns))
    return chosen


def _estimated(event: str, differences: list[tuple[float, float]]) -> Cost:
    tops = np.array([cpu_ns for cpu_ns, _ in differences])
    bottoms = [events for _, events in differences]
    if len(tops) < FEWEST_WINDOWS:
        return _few(event, len(tops))
    if sum(bottoms) <= 0:
        why = quality("no_fewer_events")
        return Cost(event, None, "toggled", n=len(tops), quality=why)
    middle = np.median(tops)
    reach = _FARTHEST * np.median(np.abs(tops - middle))
    clipped = np.clip(tops, middle - reach, middle + reach).tolist()
    mean_ns, stderr_ns = ratio(clipped, bottoms)
    half_ns = t_quantile(len(tops) - 1) * stderr_ns
    return Cost(
        event, None, "toggled", mean_ns, stderr_ns * math.sqrt(len(tops)), len(tops),
        mean_ns - half_ns, mean_ns + half_ns,
    )  # fmt: skip
