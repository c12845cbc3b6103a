"""Computes what `summarize` tells: where each thread's lifetime went, as frozen values.

docs/summary.md explains every number; `answer` makes tables of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.result.note import Note
    from rlscope_analysis.result.table import Answer
    from rlscope_analysis.summary.gpu import GpuSummary
    from rlscope_analysis.summary.overhead import OverheadSummary
    from rlscope_analysis.window import AskedWindow


@dataclass(frozen=True, slots=True)
class StateTimes:
    """The parts of a lifetime: running + runnable + sleeping + blocked + lost = lifetime."""

    running_ns: int
    runnable_ns: int
    sleeping_ns: int
    blocked_ns: int
    lost_ns: int
    lifetime_ns: int

    @property
    def is_balanced(self) -> bool:
        """Whether the parts add up, to the nanosecond."""
        parts = self.running_ns + self.runnable_ns + self.sleeping_ns + self.blocked_ns
        return parts + self.lost_ns == self.lifetime_ns


@dataclass(frozen=True, slots=True)
class Switches:
    """How often threads left the CPU, and how often they came back to another one."""

    switches: int
    voluntary: int
    involuntary: int
    unknown: int
    migrations: int


_Numbers = TypeVar("_Numbers", StateTimes, Switches)


def by_field(values: StateTimes | Switches | Latency) -> dict[str, Any]:
    """Return the fields by name: `asdict` copies each and takes ten times as long."""
    return {name: getattr(values, name) for name in values.__slots__}


def added_up(kind: type[_Numbers], parts: Sequence[_Numbers]) -> _Numbers:
    """Return the sum of each field; of no parts: 0."""
    return kind(*(sum(getattr(part, of.name) for part in parts) for of in fields(kind)))


@dataclass(frozen=True, slots=True)
class Latency:
    """Run-queue latency: the quantiles are None where no thread waited for a CPU."""

    waits: int
    p50_ns: int | None
    p99_ns: int | None
    max_ns: int | None


@dataclass(frozen=True, slots=True)
class Waker:
    """Who woke: a traced thread, or one of the kinds that are no traced thread."""

    kind: str
    thread_id: int | None
    pid: int | None
    tid: int | None
    name: str | None
    wakeups: int


@dataclass(frozen=True, slots=True)
class Measures:
    """All numbers of one row: a thread, or the total of a process or of the trace."""

    times: StateTimes
    switches: Switches
    latency: Latency
    wakeups: int
    wakers: tuple[Waker, ...]


@dataclass(frozen=True, slots=True)
class ThreadSummary:
    """One thread."""

    thread_id: int
    tid: int | None
    name: str | None
    start_ns: int | None
    end_ns: int | None
    ended: bool | None
    measures: Measures


@dataclass(frozen=True, slots=True)
class ProcessSummary:
    """One process: its measures are the totals of its threads, the busiest of which comes first.

    process_id is None for threads of which it is not known to which process they belong.
    """

    process_id: int | None
    parent_process_id: int | None
    pid: int | None
    name: str | None
    command: str | None
    exit_code: int | None
    start_ns: int | None
    end_ns: int | None
    measures: Measures | None
    """None: its thread states were not measured, which is not zero."""
    threads: tuple[ThreadSummary, ...]


@dataclass(frozen=True, slots=True)
class Loss:
    """One row of trace_stat: something the trace lacks."""

    kind: str
    code: str
    source: Note
    """What the code says."""
    count: int | None
    first_ns: int | None
    remedy: Note | None
    """What to do the next time."""
    parameters: dict[str, Any]
    """Of the code: cpu, record, pid, bytes, detail, as far as it has them."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything `summarize` tells of one trace."""

    trace: str
    schema_version: int
    meta: dict[str, str | None]
    started_realtime_ns: int | None
    duration_ns: int | None
    is_complete: bool
    losses: tuple[Loss, ...]
    notes: tuple[Note, ...]
    observations: tuple[Note, ...]
    """What stands out beside what limits the iterations: spinning, idle GPUs."""
    has_states: bool
    """Whether the thread states of any process were measured."""
    total: Measures
    """Of all processes whose states were measured; zeros where those of none were."""
    processes: tuple[ProcessSummary, ...]
    reports: tuple[Answer, ...]
    """What else was measured: operations, layers, the GPU."""

    thread_count: int
    overhead: OverheadSummary
    """What recording cost the target."""
    gpu: GpuSummary
    """What was recorded of GPUs."""
    window: AskedWindow | None = None
    """The interval that was asked for; None: the whole trace."""
