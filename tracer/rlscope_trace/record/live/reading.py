"""One reading of all sums that are kept of a target that is watched; times in ns."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlscope_trace import _capture


class Phase(NamedTuple):
    """The time of a thread in ranges of one name, since it was watched first."""

    pid: int
    tid: int
    name: str
    is_auto: bool
    self_ns: int
    total_ns: int
    ended: int
    """How many ranges that have ended."""
    runs: int
    run_start_ns: int
    steps: int
    last_start_ns: int


@dataclass(frozen=True, slots=True)
class Thread:
    """The time of a thread since it was watched first, up to until_ns."""

    thread_id: int
    pid: int
    tid: int
    name: str
    until_ns: int
    has_ended: bool
    running_ns: int
    runnable_ns: int
    sleeping_ns: int
    blocked_ns: int
    lost_ns: int
    switches: int
    queue: tuple[int, ...]
    """Waits for a CPU by their length: [2^n, 2^(n+1)) us."""
    samples: tuple[int, ...]
    """By layer: none, python, simulator, backend, cuda_api, spin, other."""
    wakers: Mapping[int, tuple[int, int]]
    """By waker (a thread_id, or one of RLS_WAKER_*): how often, and for how long it slept."""


@dataclass(frozen=True, slots=True)
class Reading:
    """All sums at one instant."""

    now_ns: int
    threads: Mapping[int, Thread]
    functions: Sequence[tuple[str, tuple[int, ...]]] = ()
    """Of the innermost Python function: samples by layer since the last reading."""
    commands: Mapping[int, str] = field(default_factory=dict)
    phases: Sequence[Phase] = ()
    gpu_ns: Mapping[int, int] = field(default_factory=dict)
    """By pid: what its GPUs did, added up."""
    records: int = 0
    lost: int = 0
    recorder_cpu_ns: int = 0
    """CPU time of the recorder, all its threads."""


def read_totals(
    capture_open: bytes,
    now_ns: int,
    totals: _capture.LiveTotals,
    shims: _capture.ShimCollector,
    lost: int,
) -> Reading:
    """Return the sums; capture_open: what the threads were doing at now_ns or just after."""
    reported = totals.snapshot(capture_open, now_ns)
    threads = [Thread(**_thread(facts)) for facts in reported["threads"]]
    return Reading(
        now_ns=now_ns,
        threads={thread.thread_id: thread for thread in threads},
        functions=[(_text(name), tuple(samples)) for name, samples in reported["functions"]],
        commands={pid: _command(arguments) for pid, arguments in reported["commands"].items()},
        phases=[Phase._make(map(_named, row)) for row in shims.phases(now_ns)],
        gpu_ns={pid: busy_ns for pid, busy_ns, _ in shims.gpu_work()},
        records=reported["records"],
        lost=lost,
        recorder_cpu_ns=time.process_time_ns(),
    )


def _thread(facts: dict[str, Any]) -> dict[str, Any]:
    samples, queue = tuple(facts["samples"]), tuple(facts["queue"])
    return {**facts, "name": _text(facts["name"]), "samples": samples, "queue": queue}


def _named(value: object) -> object:
    return _text(value) if isinstance(value, bytes) else value


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _command(arguments: bytes) -> str:
    return _text(arguments.rstrip(b"\0").replace(b"\0", b" "))
