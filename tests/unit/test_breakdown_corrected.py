"""What recording cost is taken off where it was paid: measured = corrected + overhead."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings

from random_traces import traces
from rlscope_analysis.derive import derive
from rlscope_analysis.errors import TraceError
from rlscope_analysis.renderers import json as json_renderer
from rlscope_analysis.renderers import text as text_renderer
from rlscope_analysis.reports import REPORTS
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.result.note import note
from rlscope_analysis.schema.facts.qualities import quality
from rlscope_analysis.summary.answer import answer_of
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
from rlscope_analysis.views import install_views
from trace_builder import TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlscope_analysis.trace import Trace

MS = 10**6
SPLIT_EVENTS = ("call", "range")
# What is subtracted for the events of trained(), which all come alone.
SWITCH_NS, WAKEUP_NS, SAMPLE_NS = 2 * 1300, 2 * 2600, 3 * 3900
CALL_INSIDE_NS, CALL_OUTSIDE_NS = 3.5 * 700, 3.5 * 1100
CALL_NS, RANGE_NS = CALL_INSIDE_NS + CALL_OUTSIDE_NS, 700 + 1100


def add_costs(builder: TraceBuilder, scale: float = 1.0) -> None:
    """Add what events cost in a loop."""
    for at, event in enumerate(("switch", "wakeup", "sample", "gil_release"), start=1):
        builder.cost(event, scale * at * 1.3, error_ns=0.1)
    for event in SPLIT_EVENTS:
        builder.cost(event, scale * 0.7, part="inside", error_ns=0.1)
        builder.cost(event, scale * 1.1, part="outside", error_ns=0.1)


def filled(builder: TraceBuilder) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    builder.fill(connection)
    install_views(connection)
    derive(connection)
    return connection


@given(traces())
@settings(max_examples=12, deadline=None)
def test_nothing_is_lost_and_nothing_is_added(builder: TraceBuilder) -> None:
    add_costs(builder)
    with filled(builder) as connection:
        check_law(connection)


def check_law(connection: duckdb.DuckDBPyConnection) -> None:
    def one(query: str) -> Any:  # noqa: ANN401
        ((value,),) = connection.execute(query).fetchall()
        return value

    assert one("SELECT coalesce(sum(time_ns), 0) FROM breakdown_corrected") == one(
        "SELECT coalesce(sum(end_ns - start_ns), 0) FROM thread WHERE end_ns > start_ns"
    )
    assert (
        one(
            "SELECT count(*) FROM breakdown_corrected WHERE corrected_ns + overhead_ns <> time_ns"
            " OR NOT corrected_low_ns <= corrected_ns OR NOT corrected_ns <= corrected_high_ns"
        )
        == 0
    )
    # Each event of a measured thread is in exactly one row: less than one nanosecond of rounding
    # in each of them.
    paid, rows = connection.execute(
        "SELECT coalesce(sum(overhead_ns), 0), count(*) FROM breakdown_corrected"
    ).fetchall()[0]
    expected = one(
        "SELECT coalesce(sum(h.hits * c.mean_ns), 0) FROM probe_hits AS h JOIN calibration AS c"
        " ON c.event = h.event AND c.part = h.part AND c.used"
    )
    assert abs(paid - expected) <= 0.5 * rows + 1e-6


def trained(path: Path, *, scale: float = 1.0, with_costs: bool = True) -> Path:
    """Write a process whose leading thread launches work for a GPU, and a thread beside it."""
    builder = TraceBuilder(path)
    for kind in ("thread_state", "operation", "native_call", "cpu_sample", "gpu_activity"):
        builder.coverage(kind)
    process = builder.process(pid=7, end_ns=100 * MS)
    main = builder.thread(
        process, tid=7, name="main", states=[run(60 * MS), sleep(20 * MS), run(20 * MS)]
    )
    other = builder.thread(
        process, tid=8, name="other", states=[sleep(50 * MS), woken(MS, by=main), run(49 * MS)]
    )
    builder.operation(main, 0, 100 * MS, "iteration")
    builder.operation(main, 10 * MS, 50 * MS, "learn")
    builder.gpu_activity(process, 20 * MS, 60 * MS)
    for at in range(10):
        for thread, first, layer in (
            (main, 10, "backend"), (main, 30, "simulator"), (other, 55, "simulator"),
        ):  # fmt: skip
            start_ns = (first + at) * MS + 1000
            builder.native_call(thread, start_ns, start_ns + 1000, layer)
    for at in range(4):
        builder.sample(main, (11 + at) * MS + 5000, "python" if at else "other")
    if with_costs:
        add_costs(builder, scale * 1000)
    return builder.write()


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Trace]:
    with open_trace(trained(tmp_path / "trace.duckdb")) as opened:
        yield opened


def records(trace: Trace, name: str) -> list[dict[str, Any]]:
    return list(answer(trace, REPORTS[name]).data.records())


def test_each_part_is_taken_off_where_it_was_paid(trace: Trace) -> None:
    check_law(trace.connection)
    rows = trace.sql(
        "SELECT operation, bucket, gpu_busy, overhead_ns FROM breakdown_corrected AS b"
        " JOIN thread AS t USING (thread_id) WHERE t.name = 'main' AND overhead_ns <> 0"
    ).fetchall()
    found = {row[:3]: row[3] for row in rows}
    # Ten calls each: the inside in their own layer, the outside in the intervals around them.
    assert found["learn", "backend", False] == 10 * CALL_INSIDE_NS
    assert found["learn", "simulator", True] == 10 * CALL_INSIDE_NS
    # Around: 10 calls, the inside of the range and 4 samples, split as the samples are: 1 to 3.
    around = 10 * CALL_OUTSIDE_NS + 700 + 4 * SAMPLE_NS
    assert found["learn", "other", False] == pytest.approx(around / 4, abs=1)
    assert found["learn", "python", False] == pytest.approx(around * 3 / 4, abs=1)


def test_intervals_add_up_within_a_kind_and_in_quadrature_between(trace: Trace) -> None:
    total = records(trace, "corrected")[0]
    by_event = records(trace, "overhead")
    assert total["scope"] == "trace"
    for end, sign in (("overhead_low_ns", -1), ("overhead_high_ns", 1)):
        apart = [row[end] - row["overhead_ns"] for row in by_event]
        expected = sign * sum(value**2 for value in apart) ** 0.5
        assert total[end] - total["overhead_ns"] == pytest.approx(expected, abs=3)
    calls = next(row for row in by_event if row["event"] == "call")
    # Alone they take 2 to 5 times what they do in the loop, all 30 of them alike.
    assert calls["hits"] == 30
    assert calls["overhead_high_ns"] == pytest.approx(30 * 1800 * 5, rel=1e-3)
    assert calls["overhead_low_ns"] == pytest.approx(30 * 1800 * 2, rel=1e-3)


def test_levels_add_up(trace: Trace) -> None:
    rows = records(trace, "corrected")
    for column in ("time_ns", "overhead_ns", "corrected_ns"):
        sums = {
            scope: sum(row[column] for row in rows if row["scope"] == scope)
            for scope in ("trace", "process", "operation", "bucket")
        }
        assert len(set(sums.values())) == 1, sums
    assert rows[0]["time_ns"] == 80 * MS + 49 * MS
    overhead = records(trace, "overhead")
    assert sum(row["overhead_ns"] for row in overhead) == pytest.approx(
        rows[0]["overhead_ns"], abs=9
    )


def test_wall_time_loses_only_what_nothing_hid(trace: Trace) -> None:
    (row,) = records(trace, "wall")
    assert (row["leading_thread"], row["leading_tid"]) == ("main", 7)
    assert row["wall_ns"] == 100 * MS
    assert row["overhead_ns"] == row["exposed_ns"] + row["under_gpu_ns"] + row["other_threads_ns"]
    # Under the GPU: the ten calls from 30 on, whole, and waking the other thread.
    assert row["under_gpu_ns"] == 10 * CALL_NS + WAKEUP_NS
    # One switch, ten calls.
    assert row["other_threads_ns"] == SWITCH_NS + 10 * CALL_NS
    # Two switches, four samples, ten calls, and two ranges, of which one ends under the GPU.
    assert row["exposed_ns"] == 2 * SWITCH_NS + 4 * SAMPLE_NS + 10 * CALL_NS + 2 * RANGE_NS
    assert row["corrected_wall_ns"] == row["wall_ns"] - row["exposed_ns"]
    assert row["corrected_low_ns"] < row["corrected_wall_ns"] < row["corrected_high_ns"]


def test_intervals_of_time_add_up_to_the_whole(tmp_path: Path) -> None:
    path = trained(tmp_path / "trace.duckdb")

    def totals(start: str | None, end: str | None) -> tuple[int, int]:
        with open_trace(path, start=start, end=end) as opened:
            query = "SELECT sum(time_ns)::BIGINT, sum(overhead_ns)::BIGINT FROM breakdown_corrected"
            return opened.sql(query).fetchall()[0]

    time_ns, overhead_ns = totals(None, None)
    parts = [totals(None, "33ms"), totals("33ms", "61ms"), totals("61ms", None)]
    assert sum(part[0] for part in parts) == time_ns
    assert sum(part[1] for part in parts) == pytest.approx(overhead_ns, abs=30)


def test_more_overhead_than_time_is_shown_as_it_is(tmp_path: Path) -> None:
    with open_trace(trained(tmp_path / "trace.duckdb", scale=1e4)) as opened:
        check_law(opened.connection)
        total = records(opened, "corrected")[0]
        assert total["corrected_ns"] < 0
        assert total["corrected_ns"] == total["time_ns"] - total["overhead_ns"]
        summary = summarize(opened)
    assert summary.overhead.overhead_ns is not None
    assert summary.overhead.overhead_ns > summary.overhead.cpu_ns


def test_the_summary_says_it_in_one_line(trace: Trace) -> None:
    summary = summarize(trace)
    found = answer_of(summary, top=3)
    text = text_renderer.render(found, limit=None, width=200)
    (line,) = [line for line in text.splitlines() if line.startswith("overhead ")]
    assert "recording cost the target about 0.2 % of its CPU time (0." in line
    assert "subtracted in --view corrected; by: calls 0.1" in line
    reported = json.loads("".join(json_renderer.render(found)))["overhead"]
    assert reported["overhead_ns"] == pytest.approx(sum(reported["by_event"].values()), abs=9)
    assert reported["low_ns"] < reported["overhead_ns"] < reported["high_ns"]


def test_without_costs_it_is_not_measured(tmp_path: Path) -> None:
    with open_trace(trained(tmp_path / "trace.duckdb", with_costs=False)) as opened:
        rows = opened.sql(
            "SELECT count(*), sum(time_ns), count(overhead_ns), count(corrected_ns),"
            " count(corrected_low_ns) FROM breakdown_corrected"
        ).fetchall()[0]
        assert rows[0] > 0
        assert rows[1:] == (200 * MS, 0, 0, 0)
        wall = opened.sql("SELECT overhead_ns, corrected_wall_ns FROM overhead_wall").fetchall()
        assert wall == [(None, None)]
        found = answer_of(summarize(opened), top=3)
        text = text_renderer.render(found, limit=None, width=200)
        assert "overhead   not measured: its recorder did not measure it\n" in text
        for name in ("corrected", "overhead", "wall"):
            with pytest.raises(TraceError, match="did not measure it") as error:
                answer(opened, REPORTS[name])
            assert error.value.hint


def test_a_kind_of_event_without_a_cost_leaves_its_rows_open(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "trace.duckdb")
    process = builder.process(pid=7, end_ns=MS)
    thread = builder.thread(process, states=[run(MS)])
    builder.operation(thread, 1000, 2000, "step")
    builder.sample(thread, 1500, "python")
    builder.cost("switch", 300.0)
    builder.cost("sample", None, quality=quality("failed", detail="no clock"))
    for part in ("inside", "outside"):
        builder.cost("range", 100.0, part=part)
    with open_trace(builder.write()) as opened:
        rows = opened.sql(
            "SELECT operation, time_ns, overhead_ns FROM breakdown_corrected ORDER BY operation"
        ).fetchall()
        assert rows == [("(unannotated)", MS - 1000, 2 * 300 + 100), ("step", 1000, None)]
        summary = summarize(opened)
    assert summary.overhead.reason == note("no_cost_of", events=["sample"])
    assert note("cost_not_measured", event="sample", hits=1) in summary.observations


def test_where_nobody_knows_who_ran_nothing_is_corrected(tmp_path: Path) -> None:
    builder = TraceBuilder(tmp_path / "imported.duckdb")
    builder.coverage("thread_state", measured=False)
    builder.coverage("operation")
    process = builder.process(pid=7, end_ns=MS)
    thread = builder.thread(process, states=[], end_ns=MS)
    builder.operation(thread, 1000, 2000, "step", source="record_function")
    builder.native_call(thread, 1100, 1200, "backend")
    add_costs(builder)
    with open_trace(builder.write()) as opened:
        rows = opened.sql("SELECT sum(time_ns), count(overhead_ns) FROM breakdown_corrected")
        assert rows.fetchall() == [(MS, 0)]
        wall = opened.sql("SELECT wall_ns, overhead_ns, exposed_ns FROM overhead_wall").fetchall()
        assert wall == [(MS, None, None)]
