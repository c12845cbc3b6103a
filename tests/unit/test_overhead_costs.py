"""What events cost in a recording: the loop, and what those take more that come alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.overhead.estimate import store
from rlscope_analysis.schema.facts.qualities import quality
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run, sleep, woken

if TYPE_CHECKING:
    from collections.abc import Callable

US, MS = 10**3, 10**6
LENGTH_NS = 20 * MS
INSIDE_NS, OUTSIDE_NS = 400.0, 600.0

Cost = dict[str, Any]


def recorded(apart_ns: int) -> TraceBuilder:
    """Write a thread that runs all the time and calls a function once in so many ns."""
    builder = TraceBuilder(Path("unused"))
    add_caller(builder, builder.process(pid=1, end_ns=LENGTH_NS), apart_ns)
    return builder


def add_caller(builder: TraceBuilder, process: int, apart_ns: int) -> None:
    thread = builder.thread(process, states=[run(LENGTH_NS)])
    for at in range(0, LENGTH_NS, apart_ns):
        builder.native_call(thread, at + 1, at + 3, "simulator")


def add_loop(builder: TraceBuilder) -> None:
    for part, mean_ns in (("inside", INSIDE_NS), ("outside", OUTSIDE_NS)):
        builder.cost("call", mean_ns, part=part, error_ns=10)


def worked_out(builder: TraceBuilder, event: str = "call") -> dict[str, Cost]:
    """Return what is subtracted for an event, by part."""
    with duckdb.connect() as connection:
        builder.fill(connection)
        store(connection)
        rows = connection.execute("FROM calibration_estimate WHERE event = $1", [event])
        names = [column[0] for column in rows.description]
        found = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    assert all((cost["used"], cost["method"]) == (True, "combined") for cost in found)
    return {cost["part"]: cost for cost in found}


# The less they come alone the less the mean; half of those that are 50 us apart do.
@pytest.mark.parametrize(
    ("apart_ns", "times"), [(MS, 3.5), (100 * US, 3.5), (50 * US, 2.25), (10 * US, 1.25)]
)
def test_calls_that_come_alone_cost_more_than_those_in_the_loop(
    apart_ns: int, times: float
) -> None:
    builder = recorded(apart_ns)
    add_loop(builder)
    found = worked_out(builder)
    for part, loop_ns in (("inside", INSIDE_NS), ("outside", OUTSIDE_NS)):
        cost = found[part]
        assert cost["mean_ns"] == pytest.approx(times * loop_ns, rel=1e-3)
        assert cost["quality"] == "ok"
        # How much more is not known to a third.
        assert cost["low_ns"] < 0.73 * cost["mean_ns"]
        assert cost["high_ns"] > 1.3 * cost["mean_ns"]


def test_threads_whose_calls_are_close_do_not_make_those_of_others_cheaper() -> None:
    builder = TraceBuilder(Path("unused"))
    process = builder.process(pid=1, end_ns=LENGTH_NS)
    add_caller(builder, process, 200 * US)
    add_caller(builder, process, 10 * US)
    add_loop(builder)
    # The 100 calls of one thread come alone, and of the 2,000 of the other one of ten.
    alone = (100 + 200) / 2_100
    found = worked_out(builder)["inside"]["mean_ns"]
    assert found == pytest.approx((1 + 2.5 * alone) * INSIDE_NS, rel=1e-3)


def test_two_threads_that_switch_all_the_time_pay_what_the_loop_does() -> None:
    builder = TraceBuilder(Path("unused"))
    process = builder.process(pid=1, end_ns=8 * MS)
    turns = [step for _ in range(1000) for step in (run(4 * US), sleep(4 * US))]
    builder.thread(process, states=turns)
    builder.thread(process, states=[sleep(4 * US), *turns[:-1]])
    builder.cost("switch", 400, error_ns=20)
    cost = worked_out(builder, "switch")["outside"]
    assert cost["mean_ns"] == pytest.approx(400, rel=0.05)
    assert 0 <= cost["low_ns"] < 300
    assert cost["high_ns"] > 550


@pytest.mark.parametrize(
    ("kind", "is_sibling", "is_wide"),
    [("lock", True, True), ("gil", True, True), ("pipe", True, False), ("lock", False, False)],
)
def test_threads_that_hand_over_a_lock_may_do_so_more_or_less_often_untraced(
    kind: str, *, is_sibling: bool, is_wide: bool
) -> None:
    builder = TraceBuilder(Path("unused"))
    process = builder.process(pid=1, end_ns=8 * MS)
    other = process if is_sibling else builder.process(pid=2, end_ns=8 * MS)
    waker = builder.thread(other, states=[run(8 * MS)])
    turn = [run(2 * US), sleep(4 * US), woken(2 * US, by=waker)]
    waiter = builder.thread(process, states=turn * 1000)
    for at in range(1000):
        builder.wait(waiter, 8 * US * at + 2 * US, 8 * US * at + 6 * US, kind)
    builder.cost("wakeup", 200, error_ns=20)
    cost = worked_out(builder, "wakeup")["outside"]
    # It pays for a hand-over what that takes the program itself.
    assert (cost["low_ns"] < -3 * US) == is_wide
    assert (cost["high_ns"] > 3 * US) == is_wide
    assert cost["mean_ns"] == pytest.approx(200, rel=0.1)


def test_the_single_step_of_an_expensive_call_costs_the_same_wherever_it_is() -> None:
    builder = recorded(MS)
    add_loop(builder)
    for part, mean_ns in (("inside", 9_000.0), ("outside", 1_000.0)):
        builder.cost("call_expensive", mean_ns, part=part, error_ns=10)
    found = worked_out(builder, "call_expensive")
    assert found["inside"]["mean_ns"] == pytest.approx(9_000 + 2.5 * INSIDE_NS)
    assert found["outside"]["mean_ns"] == pytest.approx(1_000 + 2.5 * OUTSIDE_NS)


def test_the_error_of_the_loop_is_in_the_interval() -> None:
    sure, unsure = recorded(MS), recorded(MS)
    sure.cost("call", 1000, part="inside", error_ns=1)
    unsure.cost("call", 1000, part="inside", error_ns=900)
    one, other = (worked_out(builder)["inside"] for builder in (sure, unsure))
    assert one["mean_ns"] == other["mean_ns"]
    assert other["high_ns"] - other["mean_ns"] >= 3.5 * 900 > one["high_ns"] - one["mean_ns"]


def test_nothing_was_measured_of_a_trace_without_costs() -> None:
    assert worked_out(recorded(MS)) == {}


def most_calls_lost(builder: TraceBuilder) -> None:
    """Lose what the OS kernel counted at the probe."""
    add_loop(builder)
    count = len(builder._calls)
    builder._calls = builder._calls[::4]
    builder.lost_calls("simulator", "f", count - len(builder._calls))


def doubted_before(builder: TraceBuilder) -> None:
    add_loop(builder)
    why = quality("measured_again", 300, 600).columns
    builder._costs = [(*row[:9], *why) for row in builder._costs]


@pytest.mark.parametrize(
    ("fault", "code"),
    [(most_calls_lost, "calls_missing"), (doubted_before, "measured_again")],
)
def test_a_planted_fault_is_told(
    tmp_path: Path, fault: Callable[[TraceBuilder], None], code: str
) -> None:
    # More than are under way when a recording begins or ends.
    builder = recorded(20 * US)
    builder.path = tmp_path / "trace.duckdb"
    fault(builder)
    with open_trace(builder.write()) as trace:
        said = map(sentence_of, summarize(trace).observations)
        findings = [one for one in said if "overhead of call" in one]
        used = trace.sql("SELECT DISTINCT quality FROM calibration WHERE used").fetchall()
        query = "SELECT DISTINCT code FROM calibration WHERE quality = 'doubtful'"
        doubts = trace.sql(query).fetchall()
    assert findings
    assert (code,) in doubts
    assert used == [("doubtful",)]


def test_a_client_that_could_not_be_measured_is_taken_for_the_other_with_a_warning() -> None:
    builder = TraceBuilder(Path("unused"))
    for part, mean_ns in (("inside", 40.0), ("outside", 100.0)):
        builder.cost("range", mean_ns, part=part, error_ns=1)
    builder.cost("range_python", None, part=None, quality=quality("failed", detail="no nvtx"))
    found = worked_out(builder, "range_python")
    assert {part: cost["mean_ns"] for part, cost in found.items()} == {
        "inside": 40.0,
        "outside": 100.0,
    }
    for cost in found.values():
        assert cost["low_ns"] < 0.51 * cost["mean_ns"]
        assert cost["high_ns"] > 2.49 * cost["mean_ns"]
        assert [cost["quality"], cost["code"], cost["subject"]] == [
            "uncertain",
            "stand_in",
            "range",
        ]
