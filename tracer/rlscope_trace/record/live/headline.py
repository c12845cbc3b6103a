"""What limits a program right now, recognised by its leading thread: a code and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace.record.live.view import Headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.live.view import PhaseView, ProcessView

# Of the window: what is more than this is what limits.
_MOST = 0.5
_MUCH_QUEUE = 0.2


def headline(processes: Sequence[ProcessView], phases: Sequence[PhaseView] | None) -> Headline:
    """Return what limits the first of the processes, which leads."""
    if not processes:
        return Headline("nothing")
    leader = processes[0]
    named = [phase for phase in phases or () if phase.name is not None]
    most = max(named, key=lambda phase: phase.share, default=None)
    phase, phase_share = (most.name, most.share) if most else (None, 0.0)
    times = leader.times
    if times.running + times.queue + times.waits <= 0:
        return Headline("nothing", leader.role)
    if times.queue >= _MUCH_QUEUE and times.queue >= times.waits:
        return Headline("cpu_queue", leader.role, share=times.queue)
    if times.running >= _MOST:
        workers = [p.times.waits for p in processes[1:] if p.waits_for == leader.role]
        waiting = sum(workers) / len(workers) if workers else 0.0
        return Headline(
            "leader_limits", leader.role, "workers" if workers else "", phase, times.running,
            phase_share, waiting,
        )  # fmt: skip
    if times.waits >= _MOST:
        return Headline(
            "leader_waits", leader.role, leader.waits_for or "", phase, times.waits, phase_share
        )
    return Headline("mixed", leader.role, "", phase, times.running, phase_share, times.waits)
