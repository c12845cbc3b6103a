"""Thread states from the context switches of Nsight Systems exports, where they tell them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlscope_analysis.schema.vocabulary import THREAD_STATES
from rlscope_trace.ingest.importers.nsys_owners import TID_BITS, UNKNOWN, without_tid
from rlscope_trace.ingest.importers.nsys_source import Source, filled, missing
from rlscope_trace.ingest.importers.nsys_sqlite import Columns, NsysFile

TABLE = "SCHED_EVENTS"
# As exports without ENUM_SAMPLING_THREAD_STATE number them.
_STATE_NAMES = {
    1: "Running", 2: "Interruptible", 3: "Uninterruptible", 4: "Stopped", 5: "Terminated",
}  # fmt: skip
# The state in which a thread leaves the CPU; any other says nothing about why it does not run.
_STATE_OF_NAME = {
    "Running": THREAD_STATES.index("runnable"),
    "Interruptible": THREAD_STATES.index("sleeping"),
    "Stopped": THREAD_STATES.index("sleeping"),
    "Uninterruptible": THREAD_STATES.index("blocked"),
}
_RUNNING = THREAD_STATES.index("running")
# Between the end of a thread and the next life of its number, or where a switch is missing.
_GAP, _NO_STATE = 254, 255
_NO_CPU, _MAX_CPU = -1, (1 << 15) - 1


@dataclass(frozen=True, slots=True)
class States:
    """Equally long columns as in thread_state_coded, and which processes they are of."""

    thread: NDArray[np.int32]
    """As Owners numbers them."""
    columns: Columns
    processes: frozenset[int]
    """Whose states are known."""


def read_states(source: Source) -> tuple[States | None, bool]:
    """Read the states of all threads whose process has reported them.

    Returns whether the export has context switches, too. Those of a process where some do not
    tell the state are counted as skipped.
    """
    read = source.read_times(TABLE, ("cpu", "isSchedIn", "globalTid", "threadState"))
    if read is None or "isSchedIn" not in read:
        return None, read is not None
    read = _in_order(read)
    intervals = _intervals(source, read)
    keep = _of_known_processes(source, read, intervals)
    if not keep.any():
        return None, True
    kept = {name: column[keep] for name, column in intervals.items()}
    thread = source.owners.threads_at(
        source.index, kept.pop("tid"), kept["start_ns"], kept["end_ns"]
    )
    processes = np.unique(np.array(source.owners.process_of, dtype=np.int32)[thread])
    return States(thread, kept, frozenset(processes.tolist())), True


def _in_order(read: Columns) -> Columns:
    """Sort by thread and time, without the idle threads of the CPUs and without NULL times."""
    tids = filled(read.get("globalTid"), rows=len(read["start"]))
    is_idle = (tids >> TID_BITS) & ((1 << TID_BITS) - 1) == 0
    rows = np.flatnonzero(~(missing(read["start"]) | is_idle | (tids == UNKNOWN)))
    starts = np.ma.getdata(read["start"])
    rows = rows[np.lexsort((starts[rows], tids[rows]))]
    return {
        "tid": tids[rows],
        "start": starts[rows],
        "cpu": np.clip(filled(read.get("cpu"), _NO_CPU, len(tids))[rows], _NO_CPU, _MAX_CPU),
        "in": filled(read["isSchedIn"], 0)[rows] != 0,
        "state": filled(read.get("threadState"), 0, len(tids))[rows],
    }


def _intervals(source: Source, read: Columns) -> Columns:
    """Return the time between each switch of a thread and its next one, and its state."""
    here = np.flatnonzero(read["tid"][1:] == read["tid"][:-1])
    then = here + 1
    runs, goes_on = read["in"][here], read["in"][then]
    states = _state_codes(source.file, read["state"][here])
    # On the CPU from a switch in to the switch out on the same CPU; anything else lacks a switch.
    whole = (runs != goes_on) & (~runs | (read["cpu"][here] == read["cpu"][then]))
    state = np.where(whole, np.where(runs, _RUNNING, states), _GAP).astype(np.uint8)
    if count := int((~whole).sum()):
        source.losses.add(
            "nsys_switch_alone", count, first_ns=int(read["start"][here][~whole].min())
        )
    # Whatever made a thread runnable again is not in the export.
    return {
        "tid": read["tid"][here],
        "start_ns": read["start"][here],
        "end_ns": read["start"][then],
        "state": state,
        "cpu": np.where(runs, read["cpu"][here], _NO_CPU).astype(np.int16),
    }


def _state_codes(file: NsysFile, values: NDArray[Any]) -> NDArray[np.uint8]:
    """Turn threadState into our codes."""
    names = dict(file.rows("ENUM_SAMPLING_THREAD_STATE", id=int, name=str)) or _STATE_NAMES
    unique, place = np.unique(values, return_inverse=True)
    codes = [
        _GAP
        if names.get(value) == "Terminated"
        else _STATE_OF_NAME.get(names.get(value, ""), _NO_STATE)
        for value in unique.tolist()
    ]
    return np.array(codes, dtype=np.uint8)[place]


def _of_known_processes(source: Source, read: Columns, intervals: Columns) -> NDArray[np.bool_]:
    """Tell which intervals to keep: states of processes that have reported all of theirs."""
    pids = without_tid(intervals["tid"])
    without_state = np.unique(pids[intervals["state"] == _NO_STATE])
    skipped = np.isin(without_tid(read["tid"]), without_state)
    if skipped.any():
        source.losses.add(
            "nsys_states_unreported", int(skipped.sum()), record=TABLE,
            first_ns=int(read["start"][skipped].min()),
        )  # fmt: skip
    is_state = intervals["state"] < _GAP
    return ~np.isin(pids, without_state) & is_state & (intervals["start_ns"] < intervals["end_ns"])
