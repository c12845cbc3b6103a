"""What the CPU did while the GPU was idle, against the overlap of each gap alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from rlscope_analysis.derive import derive
from trace_builder import (
    BLOCKED,
    LOST,
    RUNNABLE,
    RUNNING,
    SLEEPING,
    Interval,
    TraceBuilder,
    run,
    sleep,
)

NOWHERE = Path("in-memory")
LENGTH = 24
WAITS = {
    "gil": "gil_wait", "gpu": "gpu_wait", "io": "io_wait", "lock": "sleeping", "pipe": "io_wait",
    "sleep": "sleeping",
}  # fmt: skip

spans = st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(sorted)
states = st.lists(
    st.builds(
        Interval, st.sampled_from([RUNNING, RUNNABLE, SLEEPING, BLOCKED, LOST]), st.integers(1, 5)
    ),
    max_size=8,
)


def nested(found: list[list[int]]) -> list[list[int]]:
    """Leave out what crosses another: those are the overlap engine's business."""
    kept: list[list[int]] = []
    for start, end in sorted(found, key=lambda span: (span[0], -span[1])):
        if not any(s < start < e < end for s, e in kept) and [start, end] not in kept:
            kept.append([start, end])
    return kept


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    builder = TraceBuilder(NOWHERE)
    builder.coverage("gpu_activity")
    builder.coverage("thread_state", measured=draw(st.booleans()))
    for process in range(1, 9):
        builder.process(pid=process)
        threads = [
            builder.thread(process, states=draw(states), start_ns=draw(st.integers(0, 4)))
            for _ in range(2)
        ]
        for thread in threads:
            for start, end in nested(draw(st.lists(spans, max_size=4))):
                builder.operation(thread, start, end, draw(st.sampled_from("ab")))
            for start, end in nested(draw(st.lists(spans, max_size=4))):
                layer = draw(st.sampled_from(["python", "simulator", "backend"]))
                builder.native_call(thread, start, end, layer)
            for start, end in draw(st.lists(spans, max_size=2)):
                if not any(s < end and start < e for s, e in _waits_of(builder, thread)):
                    builder.wait(thread, start, end, draw(st.sampled_from(list(WAITS))))
        for number in range(draw(st.integers(2, 5))):
            start = draw(st.integers(-2, LENGTH))
            length = draw(st.integers(1, 4))
            builder.gpu_activity(process, start, start + length, correlation_id=number)
            if draw(st.booleans()):
                start, end = draw(spans)
                kind = draw(st.sampled_from(["launch", "sync"]))
                thread = draw(st.sampled_from(threads))
                builder.cuda_call(thread, start, end, kind=kind, correlation_id=number)
    return builder


def _waits_of(builder: TraceBuilder, thread: int) -> list[tuple[int, int]]:
    return [row[1:3] for row in builder._waits if row[0] == thread]


def bucket_of(state: str | None, layer: str | None, wait: str | None) -> str:
    """Return the bucket, by docs/breakdown.md."""
    if state in (RUNNABLE, LOST):
        return state
    if state == RUNNING:
        return layer or "running"
    if wait:
        return WAITS[wait]
    if state is None:
        return layer or "unknown"
    return "io_wait" if state == BLOCKED else "sleeping"


class Innermost:
    """What is innermost on a thread at an instant: the last row in the stored order."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, columns: str, table: str) -> None:
        query = f"SELECT thread_id, start_ns, end_ns, {columns} FROM {table}"
        self._rows = connection.execute(query).fetchall()

    def at(self, thread: int, instant: int) -> Any:  # noqa: ANN401 - what the column holds
        found = [row[3] for row in self._rows if row[0] == thread and row[1] <= instant < row[2]]
        return found[-1] if found else None


def expected(connection: duckdb.DuckDBPyConnection) -> Counter[tuple[Any, ...]]:
    """Count the instants of each gap by what holds then on the thread that ended it."""
    names = dict(connection.execute("SELECT path_id, name FROM operation_path").fetchall())
    life, operation, state, native, wait, cuda, sync = (
        Innermost(connection, *what)
        for what in (
            ("1", "thread"), ("path_id", "operation_coded"), ("state", "thread_state_coded"),
            ("layer", "native_call_coded"), ("kind", "wait_coded"),
            ("'cuda_api'", "cuda_call_coded"), ("true", "cuda_call_coded WHERE kind = 'sync'"),
        )
    )  # fmt: skip
    ((is_measured,),) = connection.execute(
        "SELECT measured FROM coverage WHERE kind = 'thread_state'"
    ).fetchall()
    times: Counter[tuple[Any, ...]] = Counter()
    for process, thread, start, end in connection.execute(
        "SELECT process_id, thread_id, start_ns, end_ns FROM idle_gap"
    ).fetchall():
        for at in range(start, end):
            if thread is None or not life.at(thread, at):
                times[process, thread, None if thread is None else "not alive", None] += 1
                continue
            now = state.at(thread, at)
            if now is None and is_measured:
                now = LOST
            reason = wait.at(thread, at)
            # How the driver waits tells nothing, but for the GIL.
            if reason != "gil" and sync.at(thread, at):
                reason = "gpu"
            if now in (RUNNING, RUNNABLE):
                reason = None
            bucket = bucket_of(now, cuda.at(thread, at) or native.at(thread, at), reason)
            times[
                process, thread, names.get(operation.at(thread, at), "(unannotated)"), bucket
            ] += 1
    return times


# A database with every view takes a while to make: few of them, with much in each.
@settings(deadline=None, max_examples=3)
@given(traces())
def test_idle_time_equals_the_overlap_of_each_gap(builder: TraceBuilder) -> None:
    with duckdb.connect() as connection:
        builder.fill(connection)
        found = Counter[tuple[Any, ...]]()
        for *key, time_ns in connection.execute(
            "SELECT process_id, thread_id, operation, bucket, time_ns FROM gpu_idle"
        ).fetchall():
            if key[3] is None and key[1] is not None:
                key[2] = "not alive"
            found[tuple(key)] += time_ns
        assert found == expected(connection)
        idle = "SELECT process_id, idle_ns FROM gpu_time WHERE scope = 'process' AND idle_ns > 0"
        total = "SELECT process_id, sum(time_ns)::BIGINT FROM gpu_idle GROUP BY ALL"
        assert sorted(connection.execute(total).fetchall()) == sorted(
            connection.execute(idle).fetchall()
        )


def one_gap() -> TraceBuilder:
    """Return a process whose GPU is idle in [100, 400): step runs until 250, then it sleeps."""
    builder = TraceBuilder(NOWHERE)
    for kind in ("gpu_activity", "thread_state", "cpu_sample"):
        builder.coverage(kind)
    thread = builder.thread(builder.process(pid=1), states=[run(250), sleep(150), run(100)])
    builder.operation(thread, 0, 300, "step")
    builder.cuda_call(thread, 390, 395, correlation_id=1)
    builder.gpu_activity(1, 50, 100)
    builder.gpu_activity(1, 400, 450, correlation_id=1)
    return builder


def test_samples_split_idle_time_as_they_split_the_operation() -> None:
    builder = one_gap()
    for ts_ns in (10, 20, 110):
        builder.sample(1, ts_ns, "python")
    builder.sample(1, 120, "simulator")
    with duckdb.connect() as connection:
        builder.fill(connection)
        derive(connection)
        found = connection.execute(
            "SELECT operation, bucket, time_ns, sampled_ns FROM gpu_idle ORDER BY ALL"
        ).fetchall()
    # Of step 200 ns ran without a GPU at work, 150 of them in the gap; 3 of 4 samples found Python
    # there. The call that ended the gap was made at 390, asleep as far as anybody knows.
    assert found == [
        ("(unannotated)", "sleeping", 100, 0),
        ("step", "python", 112, 112),
        ("step", "simulator", 38, 38),
        ("step", "sleeping", 50, 0),
    ]


def test_work_that_took_no_time_bounds_the_idle_time_at_both_ends() -> None:
    builder = TraceBuilder(NOWHERE)
    builder.coverage("gpu_activity")
    thread = builder.thread(builder.process(pid=1), states=[run(100)])
    builder.cuda_call(thread, 75, 80, correlation_id=1)
    for start, end in ((5, 5), (10, 20), (30, 30), (50, 60)):
        builder.gpu_activity(1, start, end)
    builder.gpu_activity(1, 90, 90, correlation_id=1)
    with duckdb.connect() as connection:
        builder.fill(connection)
        gaps = "SELECT start_ns, end_ns, cause FROM idle_gap ORDER BY start_ns"
        assert connection.execute(gaps).fetchall() == [
            (5, 10, None), (20, 50, None), (60, 90, "not launched"),
        ]  # fmt: skip
        idle = "SELECT idle_ns FROM gpu_time WHERE scope = 'process'"
        total = "SELECT sum(time_ns)::BIGINT FROM gpu_idle"
        assert connection.execute(total).fetchall() == connection.execute(idle).fetchall()


def test_a_trace_without_gpu_work_has_no_idle_time() -> None:
    builder = TraceBuilder(NOWHERE)
    builder.thread(builder.process(pid=1), states=[run(10)])
    with duckdb.connect() as connection:
        builder.fill(connection)
        assert connection.execute("FROM gpu_idle").fetchall() == []
