"""What an environment step demands, and the most steps per second that these demands allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.balance.energy import energy_of
from rlscope_analysis.errors import TraceError
from rlscope_analysis.schema.vocabulary import THREAD_STATES
from rlscope_analysis.whatif.program import make_program, path_of_sleep
from rlscope_analysis.whatif.read import RUNNING, read

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace
    from rlscope_analysis.whatif.read import Recorded

_RUNNABLE = THREAD_STATES.index("runnable")
# Of the CPU time of the process that runs most: others are helpers.
_ACTOR = 0.1
# Threads waited so much of the time beside a CPU that ran none of the trace.
_IDLE_BESIDE = 0.20
_GPU_SQL = """
SELECT sum(least(end_ns, $2) - greatest(start_ns, $1))::BIGINT
FROM gpu_busy_machine WHERE end_ns > $1 AND start_ns < $2
"""


@dataclass(frozen=True, slots=True)
class Demand:
    """Per environment step, in ns; a GPU that was not used or not measured demands None."""

    steps: int
    duration_ns: int
    cpus: float
    """That the program may use; a quota can leave it a part of one."""
    actors: int
    """Worker processes; 0: the leading process steps the environments itself."""
    cpu_ns: float
    actor_cpu_ns: float
    """Of the busiest thread of a worker: its threads run at the same time."""
    actor_wait_ns: float
    """Of the same, asleep for other reasons than a thread of the trace, or for want of work."""
    thread_ns: float
    """Of the thread that runs most, workers aside."""
    runnable_ns: float
    gpu_ns: float | None
    multiprocessors: int | None
    joules: float | None
    is_idle_beside: bool
    """Threads waited while CPUs idled: the bound by the CPUs is far above what is reached."""

    @property
    def steps_per_s(self) -> float:
        """What was measured."""
        return self.steps / self.duration_ns * 1e9

    @property
    def cpus_used(self) -> float:
        """How many CPUs the program had on average."""
        return self.cpu_ns * self.steps / self.duration_ns

    @property
    def limits_ns(self) -> dict[str, float]:
        """The least time between two steps, by what allows no less."""
        limits = {"cpu": self.cpu_ns / self.cpus, "thread": self.thread_ns}
        return limits if self.gpu_ns is None else {**limits, "gpu": self.gpu_ns}

    @property
    def limit(self) -> str:
        """What allows no less: cpu, thread or gpu."""
        limits = self.limits_ns
        return max(limits, key=lambda name: limits[name])

    @property
    def cycle_ns(self) -> float:
        """How long one worker takes for a step when nothing holds it up."""
        return self.actor_cpu_ns + self.actor_wait_ns

    def most_steps_per_s(self, actors: int) -> float:
        """Return an upper bound of what so many workers reach."""
        limits = [*self.limits_ns.values()]
        return 1e9 / max(self.cycle_ns / actors, *limits)

    @property
    def knee(self) -> float:
        """From how many workers on more of them bring nothing."""
        return self.cycle_ns / max(self.limits_ns.values())


def demand_of(trace: Trace, per: str | None = None) -> Demand:
    """Work out what a step demands. Raises TraceError where the trace does not tell of steps."""
    recorded = read(trace, per)
    if not recorded.environment_steps:
        raise TraceError(
            f"{trace.path} does not tell of environment steps, so no demand of one is known",
            hint="rlscope-trace summarize TRACE tells which phases were found",
        )
    states, steps = recorded.states, recorded.environment_steps
    length = np.minimum(states["end_ns"], recorded.end_ns) - np.maximum(
        states["start_ns"], recorded.start_ns
    )
    ran = _by_thread(recorded, length * (states["state"] == RUNNING))
    slept = _by_thread(recorded, length * _slept_alone(recorded))
    workers = _workers(recorded, ran)
    busiest = _busiest(recorded, ran, slept, workers)
    program = make_program(recorded)
    window = [recorded.start_ns, recorded.end_ns]
    ((gpu_ns,),) = trace.connection.execute(_GPU_SQL, window).fetchall()
    ((multiprocessors,),) = trace.connection.execute(
        "SELECT sum(multiprocessors)::BIGINT FROM gpu_device"
    ).fetchall()
    cpus = min(max(1, program.cpus, recorded.allowed_cpus), recorded.cpu_quota)
    led = [ns for thread, ns in ran.items() if recorded.process_of.get(thread, 0) not in workers]
    return Demand(
        steps, recorded.duration_ns,
        # A quota lets a program have more for a while.
        max(cpus, sum(ran.values()) / recorded.duration_ns),
        len(workers),
        sum(ran.values()) / steps,
        sum(ran[thread] for thread in busiest) / steps,
        sum(slept[thread] for thread in busiest) / steps,
        max(led, default=0) / steps,
        float(length[states["state"] == _RUNNABLE].sum()) / steps,
        gpu_ns / steps if gpu_ns else None,
        multiprocessors if gpu_ns else None,
        energy_of(trace.connection, *window).per_step(steps, uses_gpu=bool(gpu_ns)),
        program.idle_beside_ns > _IDLE_BESIDE * recorded.duration_ns,
    )  # fmt: skip


def _by_thread(recorded: Recorded, length: np.ndarray) -> dict[int, float]:
    threads, place = np.unique(recorded.states["thread_id"], return_inverse=True)
    sums = np.bincount(place, weights=length, minlength=len(threads))
    return dict(zip(threads.tolist(), sums.tolist(), strict=True))


def _workers(recorded: Recorded, ran: dict[int, float]) -> set[int]:
    """Return the worker processes: of those that simulate, where any beside the leading one do."""
    used: dict[int, float] = {}
    for thread, ns in ran.items():
        process = recorded.process_of.get(thread, 0)
        if process != recorded.lead_process_id:
            used[process] = used.get(process, 0.0) + ns
    simulates = np.isin(recorded.bursts["path_id"], recorded.paths_of.get("simulation", []))
    threads = np.unique(recorded.bursts["thread_id"][simulates]).tolist()
    known = used.keys() & {recorded.process_of.get(thread, 0) for thread in threads}
    used = {process: used[process] for process in known or used}
    return {process for process, ns in used.items() if ns > _ACTOR * max(used.values())}


def _busiest(
    recorded: Recorded, ran: dict[int, float], slept: dict[int, float], workers: set[int]
) -> list[int]:
    """Return of each worker the thread that does most, one thing after the other."""
    busiest: dict[int, int] = {}
    for thread in ran:
        process = recorded.process_of.get(thread, 0)
        best = busiest.get(process, thread)
        if process in workers and ran[thread] + slept[thread] >= ran[best] + slept[best]:
            busiest[process] = thread
    return list(busiest.values())


def _slept_alone(recorded: Recorded) -> np.ndarray:
    """Return which states are sleeps that something else than a thread of the trace ended.

    Who listens for others outside of operations has nothing to do, whatever its timers.
    """
    states = recorded.states
    thread = states["thread_id"]
    following = np.minimum(np.arange(len(thread)) + 1, len(thread) - 1)
    alone: np.ndarray = (states["state"] > _RUNNABLE) & (thread[following] == thread)
    alone &= states["waker"][following] == 0
    begin = np.maximum(states["start_ns"], recorded.start_ns)
    idles = np.flatnonzero(alone & states["listens"])
    alone[idles] = path_of_sleep(recorded.asleep, thread[idles], begin[idles]) != 0
    return alone
