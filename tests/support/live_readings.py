"""Readings of a watched target, made by hand: a learner with four workers."""

from rlscope_trace.record.live.follow import LiveReadings
from rlscope_trace.record.live.reading import Phase, Reading, Thread
from rlscope_trace.record.live.view import View

SECOND = 10**9
NO_QUEUE = (0,) * 32


def thread(
    thread_id: int,
    pid: int,
    at: int,
    *,
    running: float,
    queue: float = 0,
    samples: tuple[int, ...] = (0,) * 7,
    wakers: dict[int, tuple[int, int]] | None = None,
) -> Thread:
    """Return a thread that has spent shares of `at` seconds like this, and slept otherwise."""
    ns = at * SECOND
    return Thread(
        thread_id=thread_id, pid=pid, tid=pid, name="python", until_ns=ns, has_ended=False,
        running_ns=round(running * ns), runnable_ns=round(queue * ns),
        sleeping_ns=ns - round(running * ns) - round(queue * ns), blocked_ns=0, lost_ns=0,
        switches=100 * at, queue=NO_QUEUE, samples=samples, wakers=wakers or {},
    )  # fmt: skip


def phase(name: str, at: int, share: float, *, pid: int = 10, **facts: int) -> Phase:
    """Return a phase that took this share of `at` seconds."""
    ns = round(share * at * SECOND)
    row = {"ended": at, "runs": at, "run_start_ns": at * SECOND, "steps": 0}
    row |= {"last_start_ns": at * SECOND} | facts
    return Phase(pid=pid, tid=pid, name=name, is_auto=True, self_ns=ns, total_ns=ns, **row)


def reading(at: int) -> Reading:
    """Return a learner with four workers, `at` seconds after they began."""
    learner = thread(
        1, 10, at, running=0.8, queue=0.05, samples=(0, 30 * at, 0, 70 * at, 0, 0, 0),
        wakers={2: (10 * at, round(0.15 * at * SECOND))},
    )  # fmt: skip
    workers = [
        thread(2 + n, 20 + n, at, running=0.1, wakers={1: (at, round(0.9 * at * SECOND))})
        for n in range(4)
    ]
    return Reading(
        now_ns=at * SECOND,
        threads={one.thread_id: one for one in (learner, *workers)},
        commands={10: "python train.py", **{20 + n: "python worker.py" for n in range(4)}},
        phases=[
            phase("simulation", at, 0.3, steps=500 * at),
            phase("backpropagation", at, 0.5),
            *(phase("simulation", at, 0.1, pid=20 + n, steps=125 * at) for n in range(4)),
        ],
        records=1000 * at,
        recorder_cpu_ns=10_000_000 * at,
    )


def last_view(readings: list[Reading]) -> View:
    live = LiveReadings([10], 0)
    views = [live.add(one) for one in readings]
    assert views[0] is None
    assert views[-1] is not None
    return views[-1]
