"""Causal edges of random traces are those that a search in plain Python finds."""

from __future__ import annotations

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
INSERT INTO wait_coded
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


@given(busy_traces(), st.integers(0, 7))
@settings(max_examples=40, deadline=None)
def test_edges_are_those_that_a_search_finds(builder: TraceBuilder, seed: int) -> None:
    with duckdb.connect() as connection:
        builder.fill(connection)
        connection.execute(REASONS.format(seed=seed))
        for topic in ("state_step", "launch", "flow"):
            connection.execute(view_sql(topic))
        assert stored_edges(connection) == Reference(connection).edges()
