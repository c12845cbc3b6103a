"""What nvidia-smi says of a GPU beside the union of what ran on it, over the same time."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_builder import TraceBuilder, run

NOWHERE = Path("in-memory")
LENGTH = 20
UUIDS = ("GPU-11111111-2222", "GPU-33333333-4444")
FIGURES = (
    "span_ns, readings, utilization_share, full_share, busy_ns, kernel_ns, sum_ns, concurrency"
)


def reported(builder: TraceBuilder, where: str = "TRUE") -> list[tuple[Any, ...]]:
    query = (
        f"SELECT scope, uuid, device_id, {FIGURES} FROM gpu_utilization WHERE {where} ORDER BY ALL"
    )
    with duckdb.connect() as connection:
        builder.fill(connection)
        return connection.execute(query).fetchall()


def builder_of(*, measured: bool = True) -> TraceBuilder:
    builder = TraceBuilder(NOWHERE)
    builder.coverage("gpu_activity", measured=measured)
    builder.thread(builder.process(pid=1), states=[run(1000)])
    return builder


def test_full_by_nvidia_smi_and_nearly_idle_in_truth() -> None:
    """The classic: a short kernel in every period."""
    builder = builder_of()
    for ts_ns in range(0, 1000, 100):
        builder.counter(ts_ns, 100 if ts_ns != 500 else 70)
        builder.gpu_activity(1, ts_ns + 40, ts_ns + 44)
    assert reported(builder) == [
        ("trace", "GPU-a", 0, 900, 9, (8 * 100 + 70) / 900, 8 / 9, 36, 36, 36, 1.0),
        # From the first to the last kernel: half of the first period, and what is left of the last.
        ("work", "GPU-a", 0, 860, 9, (760 * 100 + 100 * 70) / 860 / 100, 8 / 9, 36, 36, 36, 1.0),
    ]


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """Draw two GPUs of one machine, which programs count the other way round than NVML."""
    builder = builder_of()
    for place, uuid in enumerate(UUIDS):
        builder.device(1 - place, uuid=uuid.removeprefix("GPU-").upper())
        for ts_ns in sorted(draw(st.sets(st.integers(0, LENGTH), max_size=6))):
            value = draw(st.sampled_from([0, 50, 100]))
            builder.counter(ts_ns, value, uuid=uuid, device_id=place)
        builder.counter(draw(st.integers(0, LENGTH)), 70, name="power", uuid=uuid, device_id=place)
    for _ in range(draw(st.integers(0, 8))):
        start, length = draw(st.integers(-2, LENGTH)), draw(st.integers(0, 6))
        kind = draw(st.sampled_from(["kernel", "memcpy", "graph", "sync"]))
        builder.gpu_activity(
            1, start, start + length, kind=kind, device_id=draw(st.integers(0, 1)),
            stream_id=draw(st.integers(1, 2)),
        )  # fmt: skip
    return builder


def expected(builder: TraceBuilder) -> list[tuple[Any, ...]]:
    """Count instants, GPU by GPU."""
    found = []
    for place, uuid in enumerate(UUIDS):
        readings = [
            (row[0], row[5]) for row in builder._counters
            if row[2] == uuid and row[4] == "utilization_gpu"
        ]  # fmt: skip
        readings = readings if len(readings) > 1 else []
        work = [
            row for row in builder._activities
            if row["device_id"] == 1 - place and row["kind"] != "sync"
        ]  # fmt: skip
        read = (readings[0][0], readings[-1][0]) if readings else (None, None)
        intervals = [("trace", *(read if readings else (0, 1000)))]
        if work:
            first, last = min(r["start_ns"] for r in work), max(r["end_ns"] for r in work)
            if readings:
                first, last = max(first, readings[0][0]), min(last, readings[-1][0])
            intervals.append(("work", first, last))
        found += [
            (scope, uuid, place, *figures(readings, work, start, end))
            for scope, start, end in intervals
            if end > start
        ]
    return sorted(found, key=str)


def figures(
    readings: list[tuple[int, float]], work: list[dict[str, Any]], start: int, end: int
) -> tuple[Any, ...]:
    said: dict[int, float] = {}
    periods = set()
    for (before, _), (until, value) in pairwise(readings):
        inside = range(max(before, start), min(until, end))
        said |= dict.fromkeys(inside, value)
        periods |= {(until, value)} if inside else set()
    running: dict[int, int] = defaultdict(int)
    kernels = set()
    for row in work:
        for at in range(max(row["start_ns"], start), min(row["end_ns"], end)):
            running[at] += 1
            kernels |= {at} if row["kind"] in ("kernel", "graph") else set()
    total = sum(running.values())
    return (
        end - start,
        len(periods),
        round(sum(said.values()) / len(said) / 100, 9) if said else None,
        round(sum(value == 100 for _, value in periods) / len(periods), 9) if periods else None,
        len(running), len(kernels), total,
        round(total / len(running), 9) if running else None,
    )  # fmt: skip


@settings(deadline=None, max_examples=5)
@given(traces())
def test_every_figure_equals_a_count_of_instants(builder: TraceBuilder) -> None:
    found = [
        tuple(round(value, 9) if isinstance(value, float) else value for value in row)
        for row in reported(builder)
    ]
    assert sorted(found, key=str) == expected(builder)


def test_what_is_not_known_is_no_zero() -> None:
    """Without recorded activity, and where nobody knows which GPU a program meant."""
    unmeasured = builder_of(measured=False)
    unmeasured.counter(0, 50)
    unmeasured.counter(10, 50)
    assert reported(unmeasured) == [("trace", "GPU-a", 0, 10, 1, 0.5, 0.0, None, None, None, None)]
    torn = builder_of()
    for uuid in UUIDS:
        # Two processes count differently: number 0 is this one or that one.
        torn.device(0, uuid=uuid)
        torn.counter(0, 10, uuid=uuid)
        torn.counter(10, 10, uuid=uuid)
    torn.gpu_activity(1, 2, 5)
    assert [row[:4] + row[7:10] for row in reported(torn, "scope = 'trace'")] == [
        ("trace", UUIDS[0], 0, 10, None, None, None),
        ("trace", UUIDS[1], 0, 10, None, None, None),
        ("trace", None, 0, 1000, 3, 3, 3),
    ]


def test_a_gpu_that_nobody_used_was_not_busy() -> None:
    builder = builder_of()
    builder.counter(0, 30)
    builder.counter(10, 30)
    assert reported(builder) == [("trace", "GPU-a", 0, 10, 1, 0.3, 0.0, 0, 0, 0, None)]


def test_a_program_that_used_gpus_unseen_leaves_no_zero() -> None:
    """It may have been what the utilization tells of."""
    for how in ("told", "called"):
        builder = builder_of()
        other = builder.process(pid=2)
        thread = builder.thread(other, states=[run(1000)])
        builder.coverage("gpu_activity", process_id=other, measured=False)
        builder.counter(0, 30)
        builder.counter(10, 30)
        # A program that never came near a GPU hides nothing.
        assert [row[7] for row in reported(builder)] == [0]
        if how == "told":
            builder.gpu_status(other, 5, state="off")
        else:
            builder.cuda_call(thread, 5, 6)
        assert [row[7:10] for row in reported(builder)] == [(None, None, None)]


def test_what_was_before_the_recording_of_a_gpu_is_in_no_interval() -> None:
    builder = builder_of()
    builder.gpu_status(1, 250, is_late=True)
    for ts_ns in range(0, 1001, 100):
        builder.counter(ts_ns, 100 if ts_ns > 200 else 0)
    builder.gpu_activity(1, 200, 1000)
    for interval in reported(builder):
        assert interval[3:8] == (750, 8, 1.0, 1.0, 750)
    assert [row[0] for row in reported(builder)] == ["trace", "work"]
