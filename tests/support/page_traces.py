"""Traces for pages: a learner that waits for workers, with as many rounds and threads as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.schema.vocabulary import SCHEMA_VERSION
from trace_builder import TIMER, TraceBuilder, lost, preempted, run, sleep, woken

if TYPE_CHECKING:
    from pathlib import Path

    from trace_builder import Interval

MS = 1_000_000
ROUND_NS = 70 * MS
# Of nobody on this machine.
HOME = "/".join(("", "home", "alice"))
META: dict[str, str | None] = {
    "schema_version": str(SCHEMA_VERSION), "cpus_allowed": "0-1", "host": "secrethost",
    "kernel": "6.1.0", "argv": f'["rlscope-trace", "--", "{HOME}/train.py"]',
}  # fmt: skip
COMMAND = f"/usr/bin/python3 -u {HOME}/project/train_it.py --token hunter2-token --lr 1"
_LAYERS = ("python", "simulator", "backend", "cuda_api", "spin", "other")
_WAITS = ("gil", "gpu", "io", "sleep")
KINDS = ("thread_state", "operation", "wait", "cpu_sample")


def training(
    path: Path,
    *,
    workers: int = 4,
    rounds: int = 6,
    more_threads: int = 0,
    kinds: tuple[str, ...] = KINDS,
    phase: str = "simulation",
    function: str = f"step ({HOME}/project/train_it.py:12)",
    name: str = "python",
    argv: str | None = META["argv"],
) -> TraceBuilder:
    """Make rounds of 70 ms: 30 ms of simulation, then an update; the third has none."""
    builder = TraceBuilder(path, meta=META | {"argv": argv})
    for kind in kinds:
        builder.coverage(kind)
    end_ns = rounds * ROUND_NS
    main = builder.process(pid=100, name=name, command=COMMAND, end_ns=end_ns)
    children = [
        builder.process(pid=200 + at, name=name, parent=main, end_ns=end_ns)
        for at in range(workers)
    ]
    states = []
    for at in range(rounds):
        start, queue = at * ROUND_NS, at % 50 * 1000 + 500
        states += [run(10 * MS), sleep(18 * MS), woken(2 * MS, by=2), run(34 * MS)]
        states += [preempted(queue), run(6 * MS - queue)]
        builder.wait(1, start + 10 * MS, start + 28 * MS, "pipe")
        builder.operation(1, start, start + 30 * MS, phase, source="auto", steps=8)
        if at != 2:
            builder.operation(1, start + 30 * MS, start + 69 * MS, "backpropagation", source="auto")
        for sample in range(0, 40, 8):
            frames = ("<module> (train_it.py:1)", "learn (train_it.py:9)", function)
            layer = "python" if sample == 0 else "backend"
            builder.sample(1, start + (31 + sample) * MS, layer, frames=frames)
        builder.sample(1, start + 5 * MS, "python", frames=("<module> (train_it.py:1)",))
    assert builder.thread(main, tid=100, name=name, states=states) == 1
    for child in children:
        thread = builder.thread(child, tid=199 + child, name=name, states=_answers(rounds))
        for at in range(rounds):
            start = at * ROUND_NS
            builder.operation(thread, start + 10 * MS, start + 28 * MS, phase, source="auto")
    for at in range(more_threads):
        builder.thread(main, tid=5000 + at, name=f"pool {at}", states=[sleep(end_ns - 10), run(10)])
    return builder


def with_every_bucket(builder: TraceBuilder, each_ns: int = 23_456_789_012) -> TraceBuilder:
    """Add a process that spends the same time in each bucket, so long that numbers are wide."""
    process = builder.process(pid=4_000_000, name="python")
    states = [*(run(each_ns) for _ in _LAYERS), preempted(each_ns)]
    states += [*(sleep(each_ns) for _ in _WAITS), lost(each_ns)]
    thread = builder.thread(process, tid=4_000_000, name="python", states=states)
    for at, layer in enumerate(_LAYERS):
        builder.sample(thread, at * each_ns + each_ns // 2, layer)
    for at, kind in enumerate(_WAITS, start=len(_LAYERS) + 1):
        builder.wait(thread, at * each_ns, (at + 1) * each_ns, kind)
    builder.operation(thread, 0, len(states) * each_ns, "simulation", source="auto")
    return builder


def of_rounds(path: Path, rounds: int) -> Path:
    """Make rounds of 5 ms of one process: 3 in `simulate`, 1 in `learn`, and 1 asleep."""
    builder = TraceBuilder(path)
    builder.coverage("thread_state")
    process = builder.process(pid=7, name="python")
    states: list[Interval] = []
    for at in range(rounds):
        start = at * 5 * MS
        states += [run(4 * MS), sleep(1 * MS - 10), woken(10, by=TIMER)]
        builder.operation(1, start, start + 5 * MS, "update")
        builder.operation(1, start, start + 3 * MS, "simulate")
        builder.operation(1, start + 3 * MS, start + 4 * MS, "learn")
        builder.wait(1, start + 4 * MS, start + 5 * MS - 10, "sleep")
    builder.thread(process, states=[*states, run(10)])
    return builder.write()


def _answers(rounds: int) -> list[object]:
    answers: list[object] = []
    for _ in range(rounds):
        answers += [sleep(9 * MS), woken(MS, by=1), run(18 * MS, cpu=1), sleep(42 * MS)]
    return answers


def with_gpu(builder: TraceBuilder, rounds: int = 6) -> TraceBuilder:
    """Add a kernel and a copy in each update, launched by the learner."""
    for kind in ("gpu_activity", "cuda_call"):
        builder.coverage(kind)
    builder.device(0, "Fake GPU")
    for at in range(rounds):
        start = at * ROUND_NS + 32 * MS
        for number, (kind, call, name) in enumerate(
            (("kernel", "launch", "sgemm"), ("memcpy", "memcpy", "Memcpy DtoH"))
        ):
            begin, correlation = start + number * 8 * MS, 1 + 2 * at + number
            builder.cuda_call(1, begin, begin + MS, kind=call, correlation_id=correlation)
            builder.gpu_activity(
                1, begin + MS // 2, begin + 6 * MS, kind=kind, name=name, correlation_id=correlation
            )
    return builder
