"""Whom threads wait for: the holder of the GIL, and the process at the other end."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from rlscope_analysis.derive import complete
from trace_builder import INTERRUPT, OUTSIDE, TraceBuilder, run, sleep, woken

US = 1000


@pytest.fixture
def builder() -> TraceBuilder:
    builder = TraceBuilder(Path("unused"), with_views=False)
    for kind in ("thread_state", "wait", "operation"):
        builder.coverage(kind)
    return builder


def rows(builder: TraceBuilder, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        builder.fill(connection)
        complete(connection)
        return connection.execute(query).fetchall()


GIL = """
SELECT thread_id, start_ns // 1000, end_ns // 1000, wait_ns // 1000, slices, holder_thread_id
FROM gil_wait ORDER BY ALL
"""


def waiter(builder: TraceBuilder, process: int, gap_us: int, by: int) -> int:
    """Add a thread that runs 10 us and waits 5 ms for the GIL, then 3 ms, on a CPU in between."""
    slices = [sleep(5000 * US), woken(20 * US, by=by), run(gap_us * US), sleep(3000 * US)]
    states = [run(10 * US), *slices, woken(5 * US, by=1), run(50 * US)]
    thread = builder.thread(process, states=states)
    second = 10 + 5000 + 20 + gap_us
    builder.wait(thread, 10 * US, 5010 * US, "gil")
    builder.wait(thread, second * US, (second + 3000) * US, "gil")
    return thread


def test_the_slices_of_a_wait_for_the_gil_are_one(builder: TraceBuilder) -> None:
    process = builder.process(pid=1)
    holder = builder.thread(process, states=[run(9000 * US)])
    thread = waiter(builder, process, 8, INTERRUPT)
    assert rows(builder, GIL) == [(thread, 10, 8038, 8000, 2, holder)]


@pytest.mark.parametrize(("gap_us", "by"), [(8, 1), (150, INTERRUPT)])
def test_whoever_ran_between_two_waits_had_the_gil(
    builder: TraceBuilder, gap_us: int, by: int
) -> None:
    """It was given the GIL, or ran for longer than it takes to look."""
    process = builder.process(pid=1)
    holder = builder.thread(process, states=[run(9000 * US)])
    thread = waiter(builder, process, gap_us, by)
    first_holder = holder if by > 0 else None
    second = 5030 + gap_us
    assert rows(builder, GIL) == [
        (thread, 10, 5010, 5000, 1, first_holder),
        (thread, second, second + 3000, 3000, 1, holder),
    ]


def test_a_waker_of_another_process_has_no_gil_of_ours(builder: TraceBuilder) -> None:
    other = builder.process(pid=2)
    builder.thread(other, states=[run(9000 * US)])
    waiter(builder, builder.process(pid=1), 150, OUTSIDE)
    assert [row[-1] for row in rows(builder, GIL)] == [None, None]


def test_a_wait_at_a_pipe_names_the_worker(builder: TraceBuilder) -> None:
    trainer = builder.process(pid=10, name="trainer")
    workers = [builder.process(pid=20 + n, name=f"worker-{n}", parent=trainer) for n in range(2)]
    first = builder.thread(workers[0], states=[run(100)])
    second = builder.thread(workers[1], states=[run(100)])
    waits = [("pipe", 10, first), ("pipe", 7, second), ("poll", 5, first), ("pipe", 3, INTERRUPT)]
    states, now = [run(1)], 1
    for _, length, waker in waits:
        states += [sleep(length), woken(1, by=waker), run(1)]
    thread = builder.thread(trainer, states=states)
    for kind, length, _ in waits:
        builder.wait(thread, now, now + length, kind)
        now += length + 2
    # Around the first two, and gone at the instant at which the third begins.
    builder.operation(thread, 0, 22, "step")
    found = rows(
        builder,
        "SELECT operation, wait, peer_kind, peer_pid, peer_name, time_ns, count"
        " FROM waits_on_peer ORDER BY time_ns DESC",
    )
    assert found == [
        ("step", "pipe", "process", 20, "worker-0", 10, 1),
        ("step", "pipe", "process", 21, "worker-1", 7, 1),
        ("(unannotated)", "poll", "process", 20, "worker-0", 5, 1),
        ("(unannotated)", "pipe", "interrupt", None, None, 3, 1),
    ]
