"""What a target did in the last seconds, from two readings: figures without words.

A share is a fraction of the window, None where it was not measured. Of one thread, running, queue,
waits and lost add up to 1; so do the phases of the leading thread, with what lies in none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Fewer samples say nothing about a share.
LEAST_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class Role:
    """What a process is for."""

    code: str
    """learner, main, worker, process."""
    number: int | None = None
    """Of a worker, from 0 on."""


@dataclass(frozen=True, slots=True)
class Times:
    """How a thread spent a window: shares that add up to 1."""

    running: float
    queue: float
    waits: float
    lost: float


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A thread in the window."""

    pid: int
    tid: int
    name: str
    times: Times
    switches_per_s: float


@dataclass(frozen=True, slots=True)
class ProcessView:
    """A process in the window; its times are those of its busiest thread."""

    pid: int
    role: str
    """The code of its Role."""
    number: int | None
    """Which of the workers it is; None: it is none."""
    command: str
    tid: int
    """The thread that the times are of."""
    times: Times
    cpus: float
    """CPUs that all its threads used."""
    python: float | None
    """Of its time on CPUs, by samples: in the interpreter; the rest is native code."""
    waits_for: str | None
    """Who ended most of its waiting: the code of a role, workers, timer, device, outside."""
    threads: int


@dataclass(frozen=True, slots=True)
class PhaseView:
    """A phase of the leading thread; name None: the time in no phase."""

    name: str | None
    share: float


@dataclass(frozen=True, slots=True)
class WaitView:
    """Who waited for whom: share of the window, of the busiest thread of a process."""

    role: str
    number: int | None
    """As of the process."""
    waker: str
    share: float
    wakes_per_s: float


@dataclass(frozen=True, slots=True)
class FunctionView:
    """A Python function by samples of the window: share of all."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Headline:
    """What limits the program: a code and its figures; renderers word it."""

    code: str
    role: str = ""
    peer: str = ""
    phase: str | None = None
    share: float = 0.0
    phase_share: float = 0.0
    peer_share: float = 0.0


@dataclass(frozen=True, slots=True)
class View:
    """All that is shown of a window."""

    start_ns: int
    end_ns: int
    elapsed_ns: int
    headline: Headline
    processes: tuple[ProcessView, ...]
    phases: tuple[PhaseView, ...] | None
    """Of the leading thread; None: nothing tells of any."""
    steps_per_s: float | None
    iteration_ns: int | None
    cpus: float
    gpu: float | None
    """What GPUs did, added up, of the window; None: not measured."""
    gpu_utilization: float | None
    lost: int
    recorder: float
    """CPU time of the recorder, of one CPU."""
    records_per_s: float
    threads: tuple[ThreadView, ...] = ()
    waits: tuple[WaitView, ...] = ()
    functions: tuple[FunctionView, ...] = ()
    queue: tuple[int, ...] = field(default=())
    """Waits of all threads for a CPU in the window, by their length: [2^n, 2^(n+1)) us."""

    @property
    def window_s(self) -> float:
        """Return how long the window is."""
        return (self.end_ns - self.start_ns) / 1e9
