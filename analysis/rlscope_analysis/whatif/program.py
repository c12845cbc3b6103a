"""Makes a program for the replay of what was recorded: bursts, events, sleeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscope_analysis import _replay
from rlscope_analysis.schema.vocabulary import THREAD_STATES
from rlscope_analysis.whatif.gpu import Gpu, waited_ns
from rlscope_analysis.whatif.read import RUNNING, Recorded

if TYPE_CHECKING:
    import numpy.typing as npt

    Column = npt.NDArray[Any]

RUN, FIRE, WAIT, SLEEP = range(4)
# In the place of a stack of operations: a program outside the trace had the CPU; a GPU works on a
# kernel, on something else, lets time pass before it; a thread that listens was woken by no other;
# a launch from a stack (less it) comes.
ROBBED, KERNEL, COPY, GAP, OPEN, LAUNCHED = -1, -2, -3, -4, -5, -16
_RUNNABLE = THREAD_STATES.index("runnable")
# What it takes to wake up where the CPU is busy anyway: on fewer CPUs none of them idles.
_BUSY_LATENCY_NS = 3e3


@dataclass(frozen=True, slots=True)
class Program:
    """The items of each thread in order, one row an item: what `_replay.replay` takes."""

    kind: Column
    length_ns: Column
    latency_ns: Column
    event: Column
    path_id: Column
    """Of a burst or a sleep: the stack of operations; 0: none, below: see KERNEL."""
    thread_id: Column
    life: Column
    """Whose list it is on: that of its thread, which has its number, or of a part that has one."""
    ts_ns: Column
    """Where it began; of a stream: a number."""
    cpu: Column
    """Of a burst: the place in the list of CPUs that were used."""
    first_item: Column
    events: int
    lead: int
    cpus: int
    runnable_ns: int
    """How long threads waited for a CPU."""
    idle_beside_ns: int
    """Of that: while the CPU that they then got ran no thread of the trace."""
    gpu: Gpu | None = None

    def scaled(self, factor: Column) -> Program:
        """Return it with every burst and sleep times a factor.

        Which operation others interrupted is chance: the time that they took a thread its CPU
        goes with all that the thread runs.
        """
        robbed, bursts = self.path_id == ROBBED, self.kind == RUN
        if robbed.any():
            lives, place = np.unique(self.thread_id, return_inverse=True)
            ran = np.bincount(place[bursts], self.length_ns[bursts], len(lives))
            runs = np.bincount(place[bursts], (self.length_ns * factor)[bursts], len(lives))
            whole = np.divide(runs, ran, out=np.ones(len(lives)), where=ran > 0)
            factor = np.where(robbed, whole[place], factor)
        return replace(self, length_ns=self.length_ns * factor)

    def undisturbed(self) -> Program:
        """Return it with nothing taken by programs outside the trace."""
        return replace(self, length_ns=np.where(self.path_id == ROBBED, 0.0, self.length_ns))

    def with_items(
        self, order: Column, life: Column, *, kind: Column, event: Column, thread_id: Column
    ) -> Program:
        """Return it with more items, that take no time; order and life: of all of them."""
        none = np.zeros(len(kind))

        def joined(column: Column, more: Column) -> Column:
            made: Column = np.r_[column, more][order].astype(column.dtype)
            return made

        lives, first = np.unique(life, return_index=True)
        return replace(
            self, kind=joined(self.kind, kind), length_ns=joined(self.length_ns, none),
            latency_ns=joined(self.latency_ns, none), event=joined(self.event, event),
            path_id=joined(self.path_id, none), thread_id=joined(self.thread_id, thread_id),
            life=life, ts_ns=joined(self.ts_ns, none), cpu=joined(self.cpu, none),
            first_item=np.r_[first, len(life)].astype(np.int64),
            events=max(self.events, int(event.max(initial=-1)) + 1),
            lead=int(np.searchsorted(lives, self.life[self.first_item[self.lead]])),
        )  # fmt: skip

    def duration_ns(
        self, *, cpus: int | None = None, is_pinned: bool = True, is_rendezvous: bool = True,
        is_prompt: bool = False,
    ) -> float:  # fmt: skip
        """Return how long the leading thread takes; below 0: it never gets there.

        is_pinned: a burst has the CPU it had, else any. cpus: as many as these, not those it had.
        is_prompt: it takes next to nothing to wake up, as where no CPU idles.
        """
        count = cpus or self.cpus
        pinned = is_pinned and count <= self.cpus
        queue = self.cpu % count if pinned else np.zeros_like(self.cpu)
        latency = np.minimum(self.latency_ns, _BUSY_LATENCY_NS) if is_prompt else self.latency_ns
        return _replay.replay(
            kind=self.kind, length_ns=self.length_ns, latency_ns=latency, event=self.event,
            queue=queue, first_item=self.first_item,
            cpus=np.array([1] * count if pinned else [count], dtype=np.int32),
            events=self.events, lead=self.lead, is_rendezvous=is_rendezvous,
        )  # fmt: skip


def make_program(recorded: Recorded) -> Program:
    """Make the items of every thread: bursts cut at wake-ups, events, waits, sleeps."""
    states, start_ns, end_ns = recorded.states, recorded.start_ns, recorded.end_ns
    thread, state = states["thread_id"], states["state"]
    begin, end = np.maximum(states["start_ns"], start_ns), np.minimum(states["end_ns"], end_ns)
    cpus, place = np.unique(states["cpu"][state == RUNNING], return_inverse=True)
    cpu = np.full(len(state), -1, dtype=np.int32)
    cpu[state == RUNNING] = place
    has_next = np.r_[thread[1:] == thread[:-1], False]
    following = np.minimum(np.arange(len(state)) + 1, len(state) - 1)
    runnable = state == _RUNNABLE
    got = runnable & has_next & (state[following] == RUNNING)
    idle = np.zeros(len(state))
    idle[got] = _idle(cpu[following[got]], begin[got], end[got], cpu, begin, end, len(cpus))
    waker = states["waker"]
    known = np.isin(waker, np.unique(recorded.bursts["thread_id"])) & (waker != thread)
    # Sleeps: those that go on beyond the end are never over, and nothing follows them.
    asleep = state > _RUNNABLE
    wakes = asleep & has_next & (end < end_ns)
    is_event = wakes & runnable[following] & known[following] & (begin[following] > start_ns)
    gpu = recorded.gpu
    waited = waited_ns(gpu.waits, thread, begin, end) if gpu else np.zeros(len(state))
    is_event &= waited <= (end - begin) / 2
    # Who had a lock of the driver had it by chance: a delay, whatever that thread did before.
    is_event &= ~states["in_driver"]
    event_of = np.full(len(state), -1, dtype=np.int32)
    event_of[is_event] = np.arange(int(is_event.sum()))
    latency = np.where(runnable[following], idle[following], 0.0)
    # Who was preempted, and did not get the CPU again when no thread of the trace had it.
    robbed = runnable & got & (waker == 0) & (idle > 0) & ~np.r_[False, asleep[:-1] & has_next[:-1]]
    alone = wakes & ~is_event
    path_of_alone = path_of_sleep(recorded.asleep, thread[alone], begin[alone])
    path_of_alone[states["listens"][alone] & (path_of_alone == 0)] = OPEN
    at_gpu = _at_gpu(gpu)
    bursts = _cut(
        recorded.bursts,
        np.r_[waker[following[is_event]], at_gpu[0]],
        np.r_[begin[following[is_event]], at_gpu[1]],
    )
    run_ns = bursts["end_ns"] - bursts["start_ns"]
    if gpu:
        asleep_ns = waited_ns(gpu.waits, bursts["thread_id"], bursts["start_ns"], bursts["end_ns"])
        run_ns = np.maximum(0, run_ns - asleep_ns)
    burst_cpu = cpu[_holding(thread, states["start_ns"], bursts["thread_id"], bursts["start_ns"])]
    none = np.zeros(0)
    parts = [
        (bursts["thread_id"], bursts["start_ns"], 2, RUN, run_ns,
         none, none, bursts["path_id"], np.maximum(burst_cpu, 0)),
        (waker[following[is_event]], begin[following[is_event]], 0, FIRE, none, none,
         event_of[is_event], none, none),
        (thread[is_event], begin[is_event], 2, WAIT, none, latency[is_event],
         event_of[is_event], none, none),
        (thread[alone], begin[alone], 2, SLEEP, np.maximum(0, end - begin - waited)[alone],
         latency[alone], none, path_of_alone, none),
        # Others take a CPU for longer, the longer it is used.
        (thread[robbed], begin[robbed], 2, SLEEP, idle[robbed], none, none,
         np.full(int(robbed.sum()), ROBBED), none),
        # Asleep for ever: waits for an event that nobody fires.
        (thread[asleep & ~wakes], begin[asleep & ~wakes], 2, WAIT, none, none,
         np.full(int((asleep & ~wakes).sum()), int(is_event.sum())), none, none),
    ]  # fmt: skip
    events = int(is_event.sum()) + 1
    if gpu:
        more, events = gpu_parts(gpu, bursts, events)
        parts += more
    return _joined(recorded, parts, events, max(1, len(cpus)),
                   int((end - begin)[runnable].sum()), int(idle[got].sum()))  # fmt: skip


def _at_gpu(gpu: Gpu | None) -> tuple[Column, Column]:
    """Return where threads launch activities, and where waits for these begin and end: instants."""
    if gpu is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    of, waits = gpu.activities, gpu.waits
    return (
        np.r_[of["thread_id"], waits["thread_id"], waits["thread_id"]],
        np.r_[of["call_ns"], waits["start_ns"], waits["end_ns"]],
    )


def gpu_parts(gpu: Gpu, bursts: dict[str, Column], events: int) -> tuple[list[Any], int]:
    """Return the items of the streams, and the launches and waits of threads; events grow.

    An activity has a thread of its own in which its launch comes through.
    """
    of, count = gpu.activities, len(gpu.activities["lane"])
    which, none = np.arange(count), np.zeros(0)
    launched, through = events + which, events + count + which
    done = events + 2 * count + np.arange(len(gpu.waits["activity"]) + len(gpu.after))
    waited, after = done[: len(gpu.waits["activity"])], done[len(gpu.waits["activity"]) :]
    lane, helper = -of["lane"], -of["lane"].max() - 1 - which
    at = _holding(bursts["thread_id"], bursts["start_ns"], of["thread_id"], of["call_ns"])
    path = np.where(bursts["thread_id"][at] == of["thread_id"], bursts["path_id"][at], 0)
    kind = np.where(of["is_kernel"], KERNEL, COPY)
    ended, earlier = gpu.waits["activity"], gpu.after[:, 1]
    parts = [
        (of["thread_id"], of["call_ns"], 0, FIRE, none, none, launched, none, none),
        (gpu.waits["thread_id"], gpu.waits["start_ns"], 1, WAIT, none, none, waited, none, none),
        (helper, which, 0, WAIT, none, none, launched, none, none),
        (helper, which, 1, SLEEP, of["latency_ns"], none, none, LAUNCHED - path, none),
        (helper, which, 2, FIRE, none, none, through, none, none),
        (lane, which, 0, WAIT, none, none, through, none, none),
        (lane[gpu.after[:, 0]], gpu.after[:, 0], 1, WAIT, none, none, after, none, none),
        (lane, which, 2, SLEEP, of["gap_ns"], none, none, np.full(count, GAP), none),
        (lane, which, 3, SLEEP, of["length_ns"], none, none, kind, none),
        (lane[ended], ended, 4, FIRE, none, none, waited, none, none),
        (lane[earlier], earlier, 4, FIRE, none, none, after, none, none),
    ]
    return parts, events + 2 * count + len(done)


def _joined(  # noqa: PLR0913 - what a program is made of
    recorded: Recorded, parts: list[Any], events: int, cpus: int, runnable: int, idle: int
) -> Program:
    def column(at: int, kind: type[np.generic]) -> Column:
        made = []
        for part in parts:
            size, values = len(part[0]), part[at]
            if np.ndim(values) == 0:
                made.append(np.full(size, values, dtype=kind))
            else:
                made.append(np.asarray(values, dtype=kind) if len(values) else np.zeros(size, kind))
        return np.concatenate(made)

    thread = column(0, np.int64)
    order = np.lexsort((column(2, np.int8), column(1, np.int64), thread))
    kind, thread = column(3, np.uint8)[order], thread[order]
    lives, first = np.unique(thread, return_index=True)
    return Program(
        kind, column(4, np.float64)[order], column(5, np.float64)[order],
        column(6, np.int32)[order], column(7, np.int64)[order], thread, thread,
        column(1, np.int64)[order], column(8, np.int32)[order],
        np.r_[first, len(thread)].astype(np.int64), events,
        int(np.searchsorted(lives, recorded.lead_thread_id)), cpus, runnable, idle, recorded.gpu,
    )  # fmt: skip


def _cut(bursts: dict[str, Column], thread: Column, ts_ns: Column) -> dict[str, Column]:
    """Cut the bursts where their thread woke another."""
    at = _holding(bursts["thread_id"], bursts["start_ns"], thread, ts_ns)
    inside = (
        (bursts["thread_id"][at] == thread)
        & (bursts["start_ns"][at] < ts_ns)
        & (ts_ns < bursts["end_ns"][at])
    )
    source = np.r_[np.arange(len(bursts["start_ns"])), at[inside]]
    start = np.r_[bursts["start_ns"], ts_ns[inside]]
    order = np.lexsort((start, source))
    source, start = source[order], start[order]
    end = bursts["end_ns"][source]
    again = np.flatnonzero(source[1:] == source[:-1])
    end[again] = start[again + 1]
    kept = end > start
    source = source[kept]
    return {
        "thread_id": bursts["thread_id"][source], "start_ns": start[kept], "end_ns": end[kept],
        "path_id": bursts["path_id"][source],
    }  # fmt: skip


def _holding(thread: Column, start_ns: Column, of_thread: Column, ts_ns: Column) -> Column:
    """Return for each instant the last row of its thread that begins no later; rows are sorted."""
    order = np.lexsort(
        (
            np.r_[np.zeros(len(thread), np.int8), np.ones(len(of_thread), np.int8)],
            np.r_[start_ns, ts_ns], np.r_[thread, of_thread],
        )
    )  # fmt: skip
    rows = np.where(order < len(thread), order, -1)
    last = np.maximum.accumulate(rows)
    result = np.empty(len(of_thread), dtype=np.int64)
    asked = order >= len(thread)
    result[order[asked] - len(thread)] = last[asked]
    return np.maximum(result, 0)


def path_of_sleep(asleep: dict[str, Column], thread: Column, ts_ns: Column) -> Column:
    """Return the stack of operations that a thread was in when it began to sleep; 0: none."""
    if not len(asleep["thread_id"]):
        return np.zeros(len(thread), dtype=np.int64)
    at = _holding(asleep["thread_id"], asleep["start_ns"], thread, ts_ns)
    begins_there = (asleep["thread_id"][at] == thread) & (asleep["start_ns"][at] == ts_ns)
    return np.where(begins_there, asleep["path_id"][at], 0)


def _idle(  # noqa: PLR0913 - two lists of intervals
    on: Column, begin: Column, end: Column,
    cpu: Column, run_begin: Column, run_end: Column, cpus: int,
) -> Column:  # fmt: skip
    """Return for how long of each interval its CPU ran no thread of the trace."""
    idle = np.zeros(len(on))
    for which in range(cpus):
        rows = np.flatnonzero(cpu == which)
        rows = rows[np.argsort(run_begin[rows], kind="stable")]
        begins, ends = run_begin[rows].astype(float), run_end[rows].astype(float)
        at = np.column_stack((begins, ends)).ravel()
        ran_ns = np.cumsum(ends - begins)
        busy = np.column_stack((ran_ns - (ends - begins), ran_ns))
        asked = np.flatnonzero(on == which)
        ran = np.interp(end[asked], at, busy.ravel()) - np.interp(begin[asked], at, busy.ravel())
        idle[asked] = np.maximum(0, end[asked] - begin[asked] - ran)
    return idle
