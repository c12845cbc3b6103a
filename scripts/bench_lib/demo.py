"""What tracing the demo costs, in percent of the demo's CPU time.

One training process does windows of fixed work; a recorder is attached to every other one. What a
window takes more with it is the cost inside the target; the recorder's own CPU time comes on top.
The training is pinned to one CPU: where the OS kernel happens to put its processes makes several
percent of a difference, and here every message between them is a switch.

Scheduling alone is recorded; the default recording has `overhead`. What the recorder itself takes
with the default is reported here too, for a window that begins when it has found what to probe.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_lib import bpf_objects
from bench_lib.figure import Figure
from bench_lib.recorder import REPOSITORY, Peer

if TYPE_CHECKING:
    from bench_lib.recorder import Bench

BUDGET_PERCENT = 1
_SCHEDULING = (
    "--transitions", "off", "--sample-hz", "0",
    "--cuda-calls", "off", "--no-nvml", "--messages", "off",
)  # fmt: skip
_UPDATES, _SETTLING = 30, 10
_SETTLED_RUNS = 3


@dataclass(frozen=True, slots=True)
class _Window:
    """The CPU time of one window of training."""

    update_ns: float
    """Of one update, from the fastest tenth: in the others other programs took caches or twins."""
    all_ns: float
    """Of the window, whatever disturbed it."""
    recorder_ns: float = 0
    records: int = 0


def measure(bench: Bench) -> list[Figure]:
    """Return both parts of the cost and their sum."""
    program = str(REPOSITORY / "scripts/bench_lib/ppo_windows.py")
    workload = Peer.start([*bench.pinned(), bench.python, program])
    try:
        _window(workload)
        pairs = [_pair(bench, workload, traced_first=run % 2 == 1) for run in range(bench.runs)]
        counted = _as_counted_by_the_os_kernel(bench, workload)
        settled = [_settled(bench, workload) for _ in range(_SETTLED_RUNS)]
    finally:
        workload.close()
    in_target = tuple(100 * (traced.update_ns / plain.update_ns - 1) for plain, traced in pairs)
    in_recorder = tuple(100 * traced.recorder_ns / traced.all_ns for _, traced in pairs)
    both = tuple(map(sum, zip(in_target, in_recorder, strict=True)))
    return [
        Figure("one update, untraced", "ms of CPU", tuple(p.update_ns / 1e6 for p, _ in pairs)),
        Figure("added in the target", "% of its CPU", in_target),
        Figure("the recorder's own", "% of its CPU", in_recorder),
        Figure("demo, both", "% of its CPU", both, BUDGET_PERCENT),
        Figure("demo", "records per ms", tuple(t.records / t.all_ns * 1e6 for _, t in pairs)),
        counted,
        Figure("the recorder's own, default", "% of its CPU", tuple(settled)),
    ]


def _window(workload: Peer, *, updates: int = _UPDATES) -> _Window:
    workload.send(str(updates))
    reported = json.loads(workload.answer())
    collect_ns, learn_ns = sorted(reported["collect_ns"]), sorted(reported["learn_ns"])
    tenth = updates // 10
    return _Window(
        update_ns=collect_ns[tenth] + learn_ns[tenth], all_ns=sum(collect_ns) + sum(learn_ns)
    )


def _pair(bench: Bench, workload: Peer, *, traced_first: bool) -> tuple[_Window, _Window]:
    if traced_first:
        traced = _traced_window(bench, workload)
        return _window(workload), traced
    return _window(workload), _traced_window(bench, workload)


def _traced_window(bench: Bench, workload: Peer) -> _Window:
    recorder = bench.attach(workload.process.pid, bench.trace("demo"), *_SCHEDULING)
    # What the processes have mapped is read once, however long they are recorded.
    _window(workload, updates=_SETTLING)
    before_ns = recorder.cpu_ns()
    window = _window(workload)
    recorder_ns = recorder.cpu_ns() - before_ns
    # Saving is over when this returns: it must not compete with the next window.
    records = recorder.stop().count("records") * _UPDATES // (_UPDATES + _SETTLING)
    return _Window(window.update_ns, window.all_ns, recorder_ns, records)


def _settled(bench: Bench, workload: Peer) -> float:
    """Return the CPU time of the recorder with its default set, in percent of the target's."""
    recorder = bench.attach(workload.process.pid, bench.trace("demo"))
    try:
        _window(workload)
        before_ns = recorder.cpu_ns()
        used_ns = _window(workload).all_ns
        return 100 * (recorder.cpu_ns() - before_ns) / used_ns
    finally:
        recorder.stop()


def _as_counted_by_the_os_kernel(bench: Bench, workload: Peer) -> Figure:
    """Return the CPU time of the probes as the OS kernel counts it: little noise, but too much.

    Reading the clock at the start and the end of each run makes it some 60 ns longer, and the runs
    for other programs on the machine count too; getting there and back does not.
    """
    recorder = bench.attach(workload.process.pid, bench.trace("demo"), *_SCHEDULING)
    try:
        with bpf_objects.run_time_counted():
            before_ns = bpf_objects.run_time_ns(recorder.process.pid)
            used_ns = _window(workload).all_ns
            spent_ns = bpf_objects.run_time_ns(recorder.process.pid) - before_ns
    finally:
        recorder.stop()
    return Figure("probes, as the OS kernel counts", "% of its CPU", (100 * spent_ns / used_ns,))
