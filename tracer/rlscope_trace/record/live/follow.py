"""Makes views of readings: keeps the last of them, and what changes seldom."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rlscope_analysis.schema.vocabulary import ITERATION_NAMES
from rlscope_trace.record.live.headline import headline
from rlscope_trace.record.live.roles import WORKER, busiest, leading_pid, roles_of
from rlscope_trace.record.live.view import (
    FunctionView,
    PhaseView,
    ProcessView,
    ThreadView,
    View,
    WaitView,
)
from rlscope_trace.record.live.window import (
    Change,
    by_process,
    changes,
    function_shares,
    gpu_share,
    phase_changes,
    python_share,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlscope_trace.record.live.reading import Phase, Reading
    from rlscope_trace.record.live.view import Role

# Readings that a window spans, and those that iterations are recognised by.
_WINDOW = 2
_LONG = 30
_MOST_FUNCTIONS = 100
_ITERATES = "backpropagation"
# As many make a name that counts as an iteration: of an epoch around all steps there is one.
_ENOUGH = 3
# RLS_WAKER_* of bpf/records.h.
_WAKERS = {-1: "interrupt", -2: "outside", -3: "unknown", -4: "timer", -5: "device"}
_NO_WAKER = 0
# A waker that is any of the workers; one that has ended.
_WORKERS, _ENDED = "workers", "ended"


class LiveReadings:
    """Takes a reading a second, and tells of the last two seconds."""

    def __init__(self, roots: Sequence[int], start_ns: int) -> None:
        """roots: the pids that were asked for; start_ns: when it began to be watched."""
        self._roots = tuple(roots)
        self._start_ns = start_ns
        self._readings: deque[Reading] = deque(maxlen=_LONG + 1)
        self._commands: dict[int, str] = {}

    def add(self, reading: Reading, gpu_utilization: float | None = None) -> View | None:
        """Return what the last readings tell; None of the first one."""
        self._readings.append(reading)
        pids = {thread.pid for thread in reading.threads.values()}
        self._commands = {
            pid: command
            for pid, command in {**self._commands, **reading.commands}.items()
            if pid in pids
        }
        if len(self._readings) < 2:
            return None
        before = self._readings[max(len(self._readings) - 1 - _WINDOW, 0)]
        return self._view(before, reading, gpu_utilization)

    def _view(self, before: Reading, after: Reading, gpu_utilization: float | None) -> View:
        window_ns = after.now_ns - before.now_ns
        changed = changes(before, after)
        phases = phase_changes(before, after)
        processes = by_process(changed)
        leader = leading_pid(phases, processes, self._roots)
        roles = roles_of(list(processes), leader, self._commands, phases)
        of_thread = {c.thread.thread_id: roles[c.thread.pid] for c in changed}
        chosen = {
            pid: busiest(threads, [p for p in phases if p[0].pid == pid])
            for pid, threads in processes.items()
        }
        order = sorted(processes, key=lambda pid: (pid != leader, pid))
        views = tuple(
            self._process(pid, processes[pid], chosen[pid], roles, of_thread, window_ns)
            for pid in order
        )
        of_leader = [p for p in phases if leader is not None and p[0].pid == leader]
        of_thread_leading = (
            [p for p in of_leader if p[0].tid == chosen[leader].thread.tid]
            if leader is not None else []
        )  # fmt: skip
        shares = _phase_shares(of_thread_leading, window_ns)
        queue = [sum(column) for column in zip(*(c.queue() for c in changed), strict=True)]
        return View(
            start_ns=before.now_ns,
            end_ns=after.now_ns,
            elapsed_ns=after.now_ns - self._start_ns,
            headline=headline(views, shares),
            processes=views,
            phases=shares,
            steps_per_s=_steps_per_s(phases, leader, window_ns),
            iteration_ns=self._iteration_ns(leader),
            cpus=sum(view.cpus for view in views),
            gpu=gpu_share(before, after),
            gpu_utilization=gpu_utilization,
            lost=after.lost,
            recorder=(after.recorder_cpu_ns - before.recorder_cpu_ns) / window_ns,
            records_per_s=(after.records - before.records) * 1e9 / window_ns,
            threads=_threads(changed, window_ns),
            waits=_waits(order, chosen, roles, of_thread, window_ns),
            functions=tuple(
                FunctionView(name, share)
                for name, share in function_shares(
                    [r for r in self._readings if r.now_ns > before.now_ns], _MOST_FUNCTIONS
                )
            ),
            queue=tuple(queue),
        )

    def _process(  # noqa: PLR0913 - what a process is shown with
        self,
        pid: int,
        changed: Sequence[Change],
        chosen: Change,
        roles: Mapping[int, Role],
        of_thread: Mapping[int, Role],
        window_ns: int,
    ) -> ProcessView:
        return ProcessView(
            pid=pid,
            role=roles[pid].code,
            number=roles[pid].number,
            command=self._commands.get(pid, ""),
            tid=chosen.thread.tid,
            times=chosen.times(),
            cpus=sum(change.running_ns for change in changed) / window_ns,
            python=python_share(changed),
            waits_for=_waits_for(chosen, of_thread),
            threads=len(changed),
        )

    def _iteration_ns(self, leader: int | None) -> int | None:
        """Return how far the starts of iterations were apart, of those in the last half minute."""
        if leader is None:
            return None
        now = _iterating(self._readings[-1].phases, leader)
        if now is None:
            return None
        for reading in self._readings:
            then = next((p for p in reading.phases if p[:4] == now[:4]), None)
            # The first of all may have begun before it was watched.
            if then is not None and _number(then)[0] > 0:
                (count, start_ns), (count_was, start_was) = _number(now), _number(then)
                if count > count_was:
                    return (start_ns - start_was) // (count - count_was)
                return None
        return None


def _iterating(phases: Iterable[Phase], leader: int) -> Phase | None:
    """Return what comes once in an iteration: learning, or a range that is called like one."""
    own = [phase for phase in phases if phase.pid == leader and phase.ended]
    learning = [p for p in own if p.name == _ITERATES and p.is_auto and p.runs > 1]
    called = [p for p in own if p.name.lower() in ITERATION_NAMES and not p.is_auto]
    found = learning or called
    return max(found, key=lambda p: (p.ended >= _ENOUGH, p.total_ns, p.name), default=None)


def _number(phase: Phase) -> tuple[int, int]:
    """Return how many there were, and when the last one began."""
    if phase.name == _ITERATES:
        return phase.runs, phase.run_start_ns
    return phase.ended, phase.last_start_ns


def _phase_shares(
    phases: Sequence[tuple[Phase, int, int]], window_ns: int
) -> tuple[PhaseView, ...] | None:
    """Return the shares of one thread, the largest first, and last the time in no phase."""
    if not phases:
        return None
    spent: dict[str, int] = {}
    for phase, self_ns, _ in phases:
        spent[phase.name] = spent.get(phase.name, 0) + self_ns
    whole = max(window_ns, sum(spent.values()))
    ordered = sorted(((ns, name) for name, ns in spent.items() if ns), key=lambda p: (-p[0], p[1]))
    rest = whole - sum(ns for ns, _ in ordered)
    return (
        *(PhaseView(name, ns / whole) for ns, name in ordered),
        PhaseView(None, rest / whole),
    )


def _steps_per_s(
    phases: Sequence[tuple[Phase, int, int]], leader: int | None, window_ns: int
) -> float | None:
    """Return environment steps a second; those of workers where the leading process counts none."""
    counted = [(phase, steps) for phase, _, steps in phases if phase.steps]
    if not counted:
        return None
    own = [steps for phase, steps in counted if phase.pid == leader]
    return sum(own or [steps for _, steps in counted]) * 1e9 / window_ns


def _waits_for(change: Change, of_thread: Mapping[int, Role]) -> str | None:
    slept: dict[str, int] = {}
    for waker, (_, ns) in change.slept_by().items():
        if waker != _NO_WAKER:
            name = _waker(waker, of_thread)
            slept[name] = slept.get(name, 0) + ns
    return max(slept, key=lambda name: (slept[name], name)) if any(slept.values()) else None


def _waker(waker: int, of_thread: Mapping[int, Role]) -> str:
    if waker > 0:
        role = of_thread.get(waker)
        if role is None:
            return _ENDED
        return _WORKERS if role.code == WORKER else role.code
    return _WAKERS.get(waker, "unknown")


def _threads(changed: Sequence[Change], window_ns: int) -> tuple[ThreadView, ...]:
    ordered = sorted(changed, key=lambda c: (-c.running_ns - c.runnable_ns, c.thread.tid))
    return tuple(
        ThreadView(
            c.thread.pid, c.thread.tid, c.thread.name, c.times(), c.switches * 1e9 / window_ns
        )
        for c in ordered
    )


def _waits(
    order: Sequence[int],
    chosen: Mapping[int, Change],
    roles: Mapping[int, Role],
    of_thread: Mapping[int, Role],
    window_ns: int,
) -> tuple[WaitView, ...]:
    """Return who ended the waiting of the busiest thread of each process, the longest first."""
    found = []
    for pid in order:
        by_name: dict[str, tuple[int, int]] = {}
        for waker, (count, ns) in chosen[pid].slept_by().items():
            name = _waker(waker, of_thread) if waker != _NO_WAKER else "unknown"
            count_was, ns_was = by_name.get(name, (0, 0))
            by_name[name] = (count_was + count, ns_was + ns)
        found += [
            WaitView(
                roles[pid].code, roles[pid].number, name, min(ns / window_ns, 1.0),
                count * 1e9 / window_ns,
            )
            for name, (count, ns) in sorted(by_name.items(), key=lambda item: -item[1][1])
        ]  # fmt: skip
    return tuple(found)
