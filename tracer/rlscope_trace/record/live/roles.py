"""Which process leads a training, and what the others are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace.record.live.view import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlscope_trace.record.live.reading import Phase
    from rlscope_trace.record.live.window import Change

# Phases of whoever learns: environment workers have the simulation only.
_OF_WORKERS = "simulation"
_LEARNING = "backpropagation"
LEARNER, MAIN, WORKER, PROCESS = "learner", "main", "worker", "process"
"""Of Role.code: what leads and does backpropagation, or does not; what works for it; any other."""


def leading_pid(
    phases: Iterable[tuple[Phase, int, int]],
    processes: Mapping[int, Sequence[Change]],
    roots: Sequence[int],
) -> int | None:
    """Return the process that spends most time in phases other than the simulation.

    Where none has such phases: the first target that is alive, or the one that used most CPU time.
    """
    spent: dict[int, int] = {}
    for phase, self_ns, _ in phases:
        if phase.pid in processes and phase.name != _OF_WORKERS:
            spent[phase.pid] = spent.get(phase.pid, 0) + self_ns
    if any(spent.values()):
        return max(spent, key=lambda pid: (spent[pid], -pid))
    for pid in roots:
        if pid in processes:
            return pid
    used = {pid: sum(c.running_ns for c in changed) for pid, changed in processes.items()}
    return max(used, key=lambda pid: (used[pid], -pid)) if used else None


def busiest(changed: Sequence[Change], phases: Iterable[tuple[Phase, int, int]]) -> Change:
    """Return the thread that stands for a process: the one with phases, or else the busiest."""
    spent: dict[int, int] = {}
    for phase, self_ns, _ in phases:
        spent[phase.tid] = spent.get(phase.tid, 0) + self_ns

    def weight(change: Change) -> tuple[int, int, bool, int]:
        thread = change.thread
        return (
            spent.get(thread.tid, 0), change.running_ns + change.runnable_ns,
            thread.tid == thread.pid, -thread.tid,
        )  # fmt: skip

    return max(changed, key=weight)


def roles_of(
    pids: Sequence[int],
    leader: int | None,
    commands: Mapping[int, str],
    phases: Iterable[tuple[Phase, int, int]],
) -> dict[int, Role]:
    """Return what each process is for; workers are numbered in the order of their pids."""
    learns = any(phase.pid == leader and phase.name == _LEARNING for phase, _, _ in phases)
    roles = {} if leader is None else {leader: Role(LEARNER if learns else MAIN)}
    others = [pid for pid in sorted(pids) if pid != leader]
    stepping = {phase.pid for phase, _, _ in phases if phase.name == _OF_WORKERS and phase.is_auto}
    alike: dict[str, list[int]] = {}
    for pid in others:
        alike.setdefault(commands.get(pid, ""), []).append(pid)
    workers = [
        pid for pid in others
        if pid in stepping or len(alike[commands.get(pid, "")]) > 1
    ]  # fmt: skip
    roles |= {pid: Role(WORKER, number) for number, pid in enumerate(workers)}
    return roles | {pid: Role(PROCESS) for pid in others if pid not in roles}
