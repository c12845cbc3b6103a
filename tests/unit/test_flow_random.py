"""Causal edges of random traces are those that a search in plain Python finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from flow_reference import Reference, stored_edges
from random_traces import traces
from rlscope_analysis.views import view_sql
from trace_builder import TraceBuilder, run, sleep, woken

# As recorded: each sleep has one reason, or none.
REASONS = """
DELETE FROM wait_coded;
INSERT INTO wait_coded (thread_id, start_ns, end_ns, kind)
SELECT
  thread_id, start_ns, end_ns,
  ['gil', 'gil', 'lock', 'pipe', 'socket', 'process', 'process'][1 + (start_ns + {seed}) % 7]
FROM thread_state_coded WHERE state IN ('sleeping', 'blocked') AND (start_ns + {seed}) % 8 <> 0
ORDER BY thread_id, start_ns
"""
INSTANTS = st.integers(0, 30)
LENGTHS = st.integers(0, 12)
# A call and what it had the GPU do; either may be missing. CUPTI records waits as activities.
WORK = (
    ("launch", "cudaLaunchKernel", "kernel"), ("memcpy", "cudaMemcpy", "memcpy"),
    ("memcpy", "cudaMemcpyAsync", "memcpy"), ("sync", "cudaStreamSynchronize", "sync"),
    ("sync", "cudaDeviceSynchronize", "sync"),
)  # fmt: skip
GPU_WORK = st.fixed_dictionaries(
    {
        "work": st.sampled_from(WORK), "start": INSTANTS, "length": LENGTHS, "begun": INSTANTS,
        "lasts": LENGTHS, "thread": st.integers(0, 1), "stream": st.sampled_from([None, 1, 2]),
        "id": st.sampled_from([None, 1, 2, 3, 4]),
        "held": st.sampled_from(["both", "call", "work"]),
    }
)  # fmt: skip

# Streams are given something, one records an event, the other or a thread waits for it; then more.
STREAMS = st.sampled_from([1, 2])
EVENT = st.fixed_dictionaries(
    {
        "before": st.lists(st.tuples(STREAMS, LENGTHS, LENGTHS), min_size=1, max_size=3),
        "recorded": st.sampled_from([1, 1, 1, 1, 1, 2, None]),
        "waits": st.sampled_from([2, 2, 2, None, None, 1]),
        "device": st.sampled_from([*[0] * 9, 1, None]),
        "after": st.lists(st.tuples(STREAMS, LENGTHS, LENGTHS), min_size=1, max_size=3),
        "is_known": st.sampled_from([*[True] * 9, False]),
    }
)  # fmt: skip


@st.composite
def busy_traces(draw: st.DrawFn) -> TraceBuilder:
    """Random traces, and a process that has a GPU work, with a child and threads that wait."""
    builder = draw(traces())
    parent = builder.process(pid=100)
    child = builder.process(pid=101, parent=parent)
    wakers = [builder.thread(process, states=[run(40)]) for process in (parent, child, child)]
    nap = st.tuples(st.integers(1, 4), st.integers(1, 3), st.sampled_from(wakers))
    for process in (parent, parent, child):
        states = [
            state
            for length, latency, waker in draw(st.lists(nap, min_size=1, max_size=4))
            for state in (run(1), sleep(length), woken(latency, by=waker))
        ]
        builder.thread(process, states=states)
    devices = draw(st.integers(1, 2))
    for found in draw(st.lists(GPU_WORK, max_size=10)):
        (kind, name, activity), start, begun = found["work"], found["start"], found["begun"]
        if found["held"] != "work":
            builder.cuda_call(
                wakers[found["thread"]], start, start + found["length"], kind=kind, name=name,
                correlation_id=found["id"],
            )  # fmt: skip
        if found["held"] != "call":
            builder.gpu_activity(
                parent, begun, begun + found["lasts"], kind=activity, stream_id=found["stream"],
                device_id=begun % devices, correlation_id=found["id"],
            )  # fmt: skip
    return builder


def add_event(
    builder: TraceBuilder, process: int, thread: int, key: int, event: dict[str, Any]
) -> None:
    clock = 1
    for stream, pause, lasts in event["before"]:
        builder.cuda_call(thread, clock, clock + 1, correlation_id=key)
        begun = clock + pause
        builder.gpu_activity(process, begun, begun + lasts, stream_id=stream, correlation_id=key)
        clock, key = clock + 1, key + 1
    builder.cuda_call(thread, clock, clock, kind="other", name="record", correlation_id=key)
    waits, kind = event["waits"], "sync" if event["waits"] is None else "other"
    builder.cuda_call(thread, clock + 1, clock + 9, kind=kind, name="wait", correlation_id=key + 1)
    builder.event_wait(
        process, key + 1, stream_id=waits, event_stream_id=event["recorded"],
        event_correlation_id=key if event["is_known"] else key + 99, device_id=event["device"],
    )  # fmt: skip
    clock, key = clock + 2, key + 2
    for stream, pause, lasts in event["after"]:
        builder.cuda_call(thread, clock, clock + 1, correlation_id=key)
        begun = clock + pause + 10
        builder.gpu_activity(process, begun, begun + lasts, stream_id=stream, correlation_id=key)
        clock, key = clock + 1, key + 1


def assert_edges_are_found(connection: duckdb.DuckDBPyConnection) -> None:
    for topic in ("state_step", "launch", "collective", "flow"):
        connection.execute(view_sql(topic))
    assert stored_edges(connection) == Reference(connection).edges()


@given(st.lists(EVENT, min_size=1, max_size=2))
@settings(max_examples=25, deadline=None)
def test_edges_of_events_are_those_that_a_search_finds(events: list[dict[str, Any]]) -> None:
    builder = TraceBuilder(Path("unused"), with_views=False)
    process = builder.process(pid=1)
    for number, event in enumerate(events, start=1):
        thread = builder.thread(process, states=[run(40)])
        add_event(builder, process, thread, 10 * number, event)
    with duckdb.connect() as connection:
        builder.fill(connection)
        assert_edges_are_found(connection)


# Of each process that takes part when it begins, and how long it lasts.
COLLECTIVE = st.dictionaries(st.integers(1, 4), st.tuples(INSTANTS, LENGTHS), min_size=1)


@given(st.lists(COLLECTIVE, min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_edges_of_collectives_are_those_that_a_search_finds(
    collectives: list[dict[int, tuple[int, int]]],
) -> None:
    builder = TraceBuilder(Path("unused"), with_views=False)
    processes = [builder.process(pid=pid) for pid in range(4)]
    for number, parts in enumerate(collectives, start=1):
        for place, (begun, lasts) in parts.items():
            part = (processes[place - 1], begun, begun + lasts)
            stream = None if place == 4 else place
            builder.gpu_activity(*part, stream_id=stream, correlation_id=number)
            builder.collective(number, *part, stream_id=stream, correlation_id=number)
    with duckdb.connect() as connection:
        builder.fill(connection)
        assert_edges_are_found(connection)


@given(busy_traces(), st.integers(0, 7))
@settings(max_examples=20, deadline=None)
def test_edges_are_those_that_a_search_finds(builder: TraceBuilder, seed: int) -> None:
    with duckdb.connect() as connection:
        builder.fill(connection)
        connection.execute(REASONS.format(seed=seed))
        assert_edges_are_found(connection)
