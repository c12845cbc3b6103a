"""Counts of calls into a layer: exact, or not given at all."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from rlscope_analysis.derive import complete
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.schema.facts.fact import Fact
from rlscope_analysis.schema.facts.loss import CALL_RECORD, Calls
from rlscope_analysis.schema.facts.losses import LOSSES
from trace_builder import TraceBuilder, run


@pytest.fixture
def builder() -> TraceBuilder:
    """Build a process whose step enters the simulator twice, and the backend once."""
    builder = TraceBuilder(Path("unused"), with_views=False)
    for kind in ("thread_state", "operation", "native_call"):
        builder.coverage(kind)
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
    builder.coverage("cuda_call")
    assert counts(builder) == EXACT


def test_what_was_not_measured_has_a_row_and_no_count(builder: TraceBuilder) -> None:
    assert counts(builder) == {**EXACT, ("step", "cuda_api"): (None, None, "not_measured")}


OFF = Fact("not_asked_for", "--transitions all")


@pytest.mark.parametrize(
    ("fact", "measured", "reason"),
    [
        (OFF, False, "not_captured"),
        (Fact("recorder_failed", detail="it broke"), True, "captured_in_part"),
    ],
)
def test_a_layer_has_its_own_say(
    builder: TraceBuilder, fact: Fact, measured: bool, reason: str
) -> None:
    builder.coverage("cuda_call")
    builder.coverage("native_call:backend", measured=measured, fact=fact)
    assert counts(builder) == {**EXACT, ("step", "backend"): (None, None, reason)}


def test_one_process_may_be_told_apart(builder: TraceBuilder) -> None:
    builder.coverage("cuda_call")
    builder.coverage("native_call:backend", measured=False, fact=OFF)
    builder.coverage("native_call:backend", process_id=1)
    assert counts(builder) == EXACT


def test_a_site_that_was_dropped_ends_the_count_of_its_layer(builder: TraceBuilder) -> None:
    builder.coverage("cuda_call")
    builder.site("simulator", "mj_forward", state="dropped", dropped_ns=45)
    assert counts(builder) == {
        **EXACT, ("step", "simulator"): (None, None, "functions_not_probed"),
    }  # fmt: skip


def test_a_site_dropped_when_all_was_over_does_not(builder: TraceBuilder) -> None:
    builder.coverage("cuda_call")
    builder.site("simulator", "mj_forward", dropped_ns=100)
    assert counts(builder) == EXACT


def test_lost_calls_leave_no_count_at_all(builder: TraceBuilder) -> None:
    builder.coverage("cuda_call")
    builder.loss(record="call", count=3)
    assert counts(builder) == {
        ("step", layer): (None, None, "calls_lost")
        for layer in ("simulator", "backend", "cuda_api")
    }


LATE = "probed_late"


@pytest.mark.parametrize(
    ("probed_ns", "expected"),
    [(0, EXACT), (1, {**EXACT, ("step", "simulator"): (None, 0.0, LATE)})],
)
def test_an_operation_older_than_the_probes_has_no_count(
    builder: TraceBuilder, probed_ns: int, expected: object
) -> None:
    builder.coverage("cuda_call")
    builder.site("simulator", "mj_step", probed_ns=probed_ns)
    assert counts(builder) == expected


def test_instances_since_the_probes_came_are_counted(builder: TraceBuilder) -> None:
    """Of the third step every call was recorded; of the second, which the probes met, one."""
    builder.coverage("cuda_call")
    builder.site("simulator", "mj_step", probed_ns=60)
    builder.operation(1, 90, 100, "step")
    for start_ns in (75, 91, 93, 95):
        builder.native_call(1, start_ns, start_ns + 1, "simulator", "mj_step")
    with duckdb.connect() as connection:
        builder.fill(connection)
        complete(connection)
        found = connection.execute(
            "SELECT count, instances, counted, counted_instances, per_instance, reason"
            " FROM transitions WHERE to_layer = 'simulator'"
        ).fetchall()
        report = connection.execute(REPORTS["transitions"].sql).fetch_df().set_index("to_layer")
    assert found == [(None, 3, 3, 1, 3.0, LATE)]
    reported = report.loc["simulator", ["counted", "counted_instances", "per_instance"]]
    assert reported.tolist() == [3, 1, 3.0]
    assert report.loc["simulator", "from_layer"] is None


def test_what_began_after_the_probes_is_counted(builder: TraceBuilder) -> None:
    builder.coverage("cuda_call")
    builder.site("simulator", "mj_step", probed_ns=30)
    late = builder.thread(builder.process(pid=2, start_ns=30), states=[run(70)], start_ns=30)
    builder.operation(late, 31, 40, "late")
    builder.native_call(late, 32, 35, "simulator", "mj_step")
    assert counts(builder) == {
        **EXACT,
        ("step", "simulator"): (None, 0.0, LATE),
        ("late", "simulator"): (1, 1.0, None),
    }


def test_a_process_without_python_has_no_count_in_any_layer(builder: TraceBuilder) -> None:
    builder.coverage("cuda_call")
    builder.coverage("native_call:simulator")
    builder.coverage("native_call:backend")
    builder.coverage("native_call", process_id=1, measured=False, fact=Fact("pypy"))
    assert counts(builder) == {
        ("step", layer): (None, None, "not_captured") for layer in ("simulator", "backend")
    }


def test_what_was_not_asked_for_stays_so_in_a_process_that_could_be_probed(
    builder: TraceBuilder,
) -> None:
    builder.coverage("cuda_call")
    builder.coverage("native_call:backend", measured=False, fact=OFF)
    builder.coverage("native_call", process_id=1)
    assert counts(builder) == {**EXACT, ("step", "backend"): (None, None, "not_captured")}


def test_a_layer_that_samples_found_but_no_probe_has_no_count(builder: TraceBuilder) -> None:
    builder.coverage("cuda_call")
    other = builder.thread(builder.process(pid=2), states=[run(100)])
    builder.sample(other, 5, "simulator")
    builder.sample(1, 5, "simulator")
    assert counts(builder) == {
        **EXACT,
        ("(unannotated)", "simulator"): (
            None, None, "functions_not_found",
        ),
    }  # fmt: skip


def test_each_loss_means_for_counts_what_the_vocabulary_says(builder: TraceBuilder) -> None:
    """A code that is added there and forgotten in the view fails here."""
    builder.coverage("cuda_call")
    expected = {
        Calls.LOST: "calls_lost", Calls.LOST_IF_CALLS: "calls_lost",
        Calls.PERHAPS: "calls_perhaps_lost", None: None,
    }  # fmt: skip
    builder.loss(record=CALL_RECORD)
    with duckdb.connect() as connection:
        builder.fill(connection)
        complete(connection)
        for code, loss in LOSSES.items():
            connection.execute("UPDATE trace_stat SET kind = ?, code = ?", [loss.kind, code])
            found = connection.execute("SELECT DISTINCT reason FROM _layer_gap").fetchall()
            assert found == [(expected[loss.calls],)], code
        # The same codes, of other records.
        connection.execute("UPDATE trace_stat SET record = 'cycle'")
        for code in (code for code, loss in LOSSES.items() if loss.calls is Calls.LOST_IF_CALLS):
            connection.execute("UPDATE trace_stat SET code = ?", [code])
            found = connection.execute("SELECT DISTINCT reason FROM _layer_gap").fetchall()
            assert found == [(None,)], code
