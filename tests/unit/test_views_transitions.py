"""Counts of calls into a layer: exact, or not given at all."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from rlscope_analysis.derive import complete
from trace_builder import TraceBuilder, run


@pytest.fixture
def builder() -> TraceBuilder:
    """Build a process whose step enters the simulator twice, and the backend once."""
    builder = TraceBuilder(Path("unused"), with_views=False)
    for kind in ("thread_state", "operation", "native_call"):
        builder.capture(kind)
    thread = builder.thread(builder.process(pid=1), states=[run(100)])
    builder.operation(thread, 0, 50, "step")
    builder.operation(thread, 50, 90, "step")
    builder.native_call(thread, 10, 20, "simulator", "mj_step")
    builder.native_call(thread, 30, 40, "simulator", "mj_forward")
    builder.native_call(thread, 60, 70, "backend")
    return builder


def counts(builder: TraceBuilder) -> dict[tuple[str, str], tuple[object, ...]]:
    with duckdb.connect() as connection:
        builder.fill(connection)
        complete(connection)
        rows = connection.execute(
            "SELECT operation, to_layer, count, per_instance, reason FROM transitions"
        ).fetchall()
    return {row[:2]: row[2:] for row in rows}


EXACT = {("step", "simulator"): (2, 1.0, None), ("step", "backend"): (1, 0.5, None)}


def test_counts_are_exact_where_all_was_recorded(builder: TraceBuilder) -> None:
    builder.capture("cuda_call")
    assert counts(builder) == EXACT


def test_what_was_not_measured_has_a_row_and_no_count(builder: TraceBuilder) -> None:
    assert counts(builder) == {**EXACT, ("step", "cuda_api"): (None, None, "not measured")}


@pytest.mark.parametrize(
    ("measured", "reason"), [(False, "only with --transitions all"), (True, "in part: late")]
)
def test_a_layer_has_its_own_say(builder: TraceBuilder, measured: bool, reason: str) -> None:
    builder.capture("cuda_call")
    builder.capture("native_call:backend", measured=measured, reason=reason)
    assert counts(builder) == {**EXACT, ("step", "backend"): (None, None, reason)}


def test_one_process_may_be_told_apart(builder: TraceBuilder) -> None:
    builder.capture("cuda_call")
    builder.capture("native_call:backend", measured=False, reason="off")
    builder.capture("native_call:backend", process_id=1)
    assert counts(builder) == EXACT


def test_a_site_that_was_dropped_ends_the_count_of_its_layer(builder: TraceBuilder) -> None:
    builder.capture("cuda_call")
    builder.site("simulator", "mj_forward", state="dropped: too many calls", dropped_ns=45)
    reason = "in part: functions not probed to the end: 1, for example dropped: mj_forward"
    assert counts(builder) == {**EXACT, ("step", "simulator"): (None, None, reason)}


def test_a_site_dropped_when_all_was_over_does_not(builder: TraceBuilder) -> None:
    builder.capture("cuda_call")
    builder.site("simulator", "mj_forward", dropped_ns=100)
    assert counts(builder) == EXACT


def test_lost_calls_leave_no_count_at_all(builder: TraceBuilder) -> None:
    builder.capture("cuda_call")
    builder.loss(source="ring cpu 1 call", count=3)
    reason = "in part: calls that were lost: 3"
    assert counts(builder) == {
        ("step", layer): (None, None, reason) for layer in ("simulator", "backend", "cuda_api")
    }
