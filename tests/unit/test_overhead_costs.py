"""What events cost in a recording: scaled by the account of the OS kernel, and held to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from rlscope_analysis.note_sentences import sentence_of
from rlscope_analysis.overhead.cost import ratio, t_quantile
from rlscope_analysis.overhead.estimate import store
from rlscope_analysis.schema.facts.qualities import quality
from rlscope_analysis.summary.read import summarize
from rlscope_analysis.trace import open_trace
from trace_builder import TraceBuilder, run, sleep

if TYPE_CHECKING:
    from collections.abc import Callable

MS = 10**6
LENGTH_NS = 2_000 * MS
# By window: a switch and half of the runs of calls, at these ns a run; the others are misses.
WINDOW_NS = 100 * MS
PROGRAM_NS, MISS_NS = 150.0, 50.0

Cost = dict[str, Any]


def recorded(*, factor: float = 1.5, misses: int = 300, shift_ns: int = 0) -> TraceBuilder:
    """Write a thread that calls a function every 0.1 ms, and ten accounts of its probe.

    A run takes `factor` times what it took in the loop; `misses` runs of each window are of others.
    shift_ns: of the clock of the account.
    """
    builder = TraceBuilder(Path("unused"))
    thread = builder.thread(builder.process(pid=1, end_ns=LENGTH_NS), states=[run(LENGTH_NS)])
    for at in range(0, LENGTH_NS, MS // 10 * 50):
        builder.native_call(thread, at + 1, at + 3, "simulator")
    for number in range(10):
        start_ns = number * 200 * MS + shift_ns
        calls = WINDOW_NS // (MS // 10 * 50)
        time_ns = round(factor * (2 * calls * PROGRAM_NS + misses * MISS_NS))
        builder.account("call", start_ns, start_ns + WINDOW_NS, 2 * calls + misses, time_ns)
    return builder


def add_loops(builder: TraceBuilder, scale: float = 1.0) -> None:
    """Add what the loops say: a call is 1 us, of which its program takes 2 x 150 ns."""
    for part, mean_ns in (("inside", 400.0), ("outside", 600.0)):
        builder.cost("call", scale * mean_ns, part=part, error_ns=10)
    builder.cost("call", PROGRAM_NS, part=None, method="program", error_ns=4)
    builder.cost("bystander_call", MISS_NS, part=None, method="program", error_ns=1)


def told(cost: Cost) -> tuple[str, str | None, list[float] | None]:
    return cost["quality"], cost["code"], cost["numbers"]


def worked_out(builder: TraceBuilder, event: str = "call") -> dict[tuple[str, str | None], Cost]:
    """Return what is in calibration_estimate, by method and part."""
    with duckdb.connect() as connection:
        builder.fill(connection)
        store(connection)
        query = "SELECT method, part, * FROM calibration_estimate WHERE event = $1"
        rows = connection.execute(query, [event])
        names = [column[0] for column in rows.description]
        return {row[:2]: dict(zip(names, row, strict=True)) for row in rows.fetchall()}


@pytest.mark.parametrize(("factor", "of_rest"), [(1.0, 1.0), (1.5, 1.5), (6.0, 3.0)])
def test_what_programs_take_more_tells_what_the_rest_does(factor: float, of_rest: float) -> None:
    builder = recorded(factor=factor)
    add_loops(builder)
    found = worked_out(builder)
    in_run = found["in_run", None]
    assert in_run["mean_ns"] == pytest.approx(factor * PROGRAM_NS, rel=1e-6)
    assert (in_run["n"], in_run["used"], in_run["quality"]) == (10, False, "ok")
    assert in_run["low_ns"] < in_run["mean_ns"] < in_run["high_ns"]
    # Both runs of a call are outside of it: of 600 ns there 300 are the trap.
    for part, rest_ns, runs in (("inside", 400, 0), ("outside", 300, 2)):
        cost = found["combined", part]
        whole_ns = of_rest * rest_ns + runs * factor * PROGRAM_NS
        assert cost["mean_ns"] == pytest.approx(whole_ns, rel=1e-6)
        assert cost["used"]
        assert cost["quality"] == "ok"
    # What the OS kernel gives no account of is not known as well.
    inside = found["combined", "inside"]
    assert inside["high_ns"] - inside["mean_ns"] >= 1.9 * 0.25 * of_rest * 400


def add_crowded(
    builder: TraceBuilder,
    *,
    program_ns: float = 2 * PROGRAM_NS,
    error_ns: float = 4,
    rates: tuple[int, int] = (10, 20),
) -> None:
    """Add a loop in which a call is dearer: 10 ns inside and 20 outside per ns of its program."""
    longer_ns = program_ns - PROGRAM_NS
    for part, mean_ns, rate in (("inside", 400.0, rates[0]), ("outside", 600.0, rates[1])):
        cost_ns = mean_ns + rate * longer_ns
        builder.cost("call", cost_ns, part=part, method="crowded", error_ns=10)
    builder.cost("call", program_ns, part=None, method="crowded_program", error_ns=error_ns)


@pytest.mark.parametrize(
    ("factor", "longer_ns"),
    # Cheaper than in the loop, which nothing is; as dear; and far dearer than was ever measured.
    [(0.8, 0), (1.0, 0), (1.5, 0.5 * PROGRAM_NS), (3.0, 2 * PROGRAM_NS), (6.0, 2 * PROGRAM_NS)],
)
def test_a_loop_that_crowds_the_caches_tells_what_the_rest_of_a_call_does(
    factor: float, longer_ns: float
) -> None:
    builder = recorded(factor=factor)
    add_loops(builder)
    add_crowded(builder)
    found = worked_out(builder)
    for part, calm_ns, rate in (("inside", 400, 10), ("outside", 600, 20)):
        cost = found["combined", part]
        assert cost["mean_ns"] == pytest.approx(calm_ns + rate * longer_ns, rel=1e-6)
        assert cost["used"]
        assert cost["quality"] == "ok"
        # Programs are not all alike: the rate of one is that of another within 30 %. Of what is
        # beyond the measured nothing is known.
        beyond_ns = max(factor - 1, 0) * PROGRAM_NS - longer_ns
        error_ns = 1.9 * max(0.3 * rate * longer_ns, rate * beyond_ns)
        assert cost["high_ns"] - cost["mean_ns"] >= error_ns


@pytest.mark.parametrize(
    "crowded",
    [{"program_ns": 1.1 * PROGRAM_NS}, {"program_ns": 1.5 * PROGRAM_NS, "error_ns": PROGRAM_NS}],
)
def test_a_loop_that_crowds_no_cache_tells_nothing(crowded: dict[str, float]) -> None:
    plain, both = recorded(), recorded()
    add_loops(plain)
    add_loops(both)
    add_crowded(both, **crowded)
    assert worked_out(plain) == worked_out(both)


def test_a_call_is_never_cheaper_than_its_programs() -> None:
    builder = recorded(factor=2.0)
    add_loops(builder)
    # Measured as if other work made calls cheaper: noise.
    add_crowded(builder, rates=(-1, -2))
    found = worked_out(builder)
    assert found["combined", "inside"]["mean_ns"] == pytest.approx(400)
    assert found["combined", "outside"]["mean_ns"] == pytest.approx(600 + 2 * PROGRAM_NS)


def test_other_probed_calls_become_dearer_at_the_same_rate() -> None:
    builder = recorded()
    add_loops(builder)
    add_crowded(builder)
    # A single step leaves the virtual machine: with whatever caches.
    for part, mean_ns in (("inside", 9_000.0), ("outside", 1_000.0)):
        builder.cost("call_dear", mean_ns, part=part, error_ns=10)
    found = worked_out(builder, "call_dear")
    longer_ns = 0.5 * PROGRAM_NS
    assert found["combined", "inside"]["mean_ns"] == pytest.approx(9_000 + 10 * longer_ns)
    assert found["combined", "outside"]["mean_ns"] == pytest.approx(1_000 + 20 * longer_ns)


def test_a_release_of_the_gil_has_both_rates_of_a_call() -> None:
    builder = recorded()
    add_loops(builder)
    add_crowded(builder)
    builder.cost("gil_release", 2_000, part="outside", error_ns=10)
    builder.cost("gil_release", PROGRAM_NS, part=None, method="program", error_ns=4)
    for number in range(10):
        start_ns = number * 200 * MS
        for at_ns in (start_ns + MS, start_ns + 3 * MS):
            builder.gil_release(1, at_ns, at_ns + MS)
        builder.account("gil_release", start_ns, start_ns + WINDOW_NS, 4, round(6 * PROGRAM_NS))
    found = worked_out(builder, "gil_release")
    longer_ns = 0.5 * PROGRAM_NS
    assert found["combined", "outside"]["mean_ns"] == pytest.approx(2_000 + 30 * longer_ns)


def test_runs_of_others_are_not_taken_for_ours() -> None:
    many, few = (recorded(factor=2.0, misses=misses) for misses in (5000, 0))
    for builder in (many, few):
        add_loops(builder)
    of_many, of_few = (worked_out(builder)["in_run", None] for builder in (many, few))
    assert of_many["mean_ns"] == pytest.approx(of_few["mean_ns"], rel=1e-6)
    assert of_many["high_ns"] - of_many["low_ns"] > of_few["high_ns"] - of_few["low_ns"]


def test_too_few_windows_leave_the_cost_of_the_loop_with_a_warning() -> None:
    builder = recorded()
    add_loops(builder)
    del builder._accounts[3:]
    found = worked_out(builder)
    assert found["in_run", None]["mean_ns"] is None
    assert found["combined", "inside"]["mean_ns"] == 400
    assert told(found["in_run", None]) == ("not_measured", "few_windows", [3, 120])
    assert told(found["combined", "inside"]) == ("uncertain", "few_windows", [3, 120])
    assert (
        found["combined", "inside"]["low_ns"] < 200 < 1000 < found["combined", "inside"]["high_ns"]
    )


def test_without_an_account_the_cost_is_that_of_the_loop() -> None:
    builder = recorded()
    add_loops(builder)
    builder._accounts.clear()
    found = worked_out(builder)
    assert set(found) == {("combined", "inside"), ("combined", "outside")}
    assert told(found["combined", "outside"]) == ("uncertain", "no_account", None)


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_account_after_the_last_record_is_that_of_a_recorder_that_was_killed(
    *, is_clean: bool
) -> None:
    builder = recorded(factor=2.0)
    add_loops(builder)
    builder.meta["ended_cleanly"] = str(is_clean).lower()
    builder.account("call", LENGTH_NS + 2000 * MS, LENGTH_NS + 2100 * MS, 10, 1500)
    found = worked_out(builder)
    assert (found["in_run", None]["code"] == "windows_outside") == is_clean
    assert found["in_run", None]["mean_ns"] == (None if is_clean else pytest.approx(300))


def test_windows_without_probes_are_held_to_calls_of_both_kinds() -> None:
    # A quarter of the calls is dear: the mean of all costs what the windows tell.
    builder = toggled(10_000)
    dear = builder.site("simulator", "dear", is_dear=True)
    assert dear
    builder._calls = [
        (*call[:4], "dear" if number % 4 == 0 else call[4], call[5])
        for number, call in enumerate(builder._calls)
    ]
    for event, mean_ns in (("call", 4_000.0), ("call_dear", 28_000.0)):
        for part in ("inside", "outside"):
            builder.cost(event, mean_ns / 2, part=part, error_ns=10)
    assert worked_out(builder)["combined", "inside"]["quality"] != "ok"
    found = {event: worked_out(builder, event) for event in ("call", "call_dear")}
    for rows in found.values():
        assert rows["combined", "inside"]["quality"] != "doubtful"
    builder._costs = [
        (*row[:3], row[3] * 3, row[4], row[5], row[6] * 3, row[7] * 3, *row[8:])
        for row in builder._costs
    ]
    for event in ("call", "call_dear"):
        grade, code, numbers = told(worked_out(builder, event)["combined", "inside"])
        assert (grade, code) == ("doubtful", "toggled_otherwise")
        assert numbers[0] == pytest.approx(30_000)


def test_nothing_was_measured_of_a_trace_without_costs() -> None:
    builder = recorded()
    builder._accounts.clear()
    assert worked_out(builder) == {}


@pytest.mark.parametrize(("runs", "is_told"), [(20, False), (200, True)])
def test_misses_that_are_rare_may_be_cold(runs: int, *, is_told: bool) -> None:
    builder = recorded()
    add_loops(builder)
    builder._calls.clear()
    time_ns = round(4.5 * runs * MISS_NS)
    builder._accounts = [(*row[:4], runs, time_ns) for row in builder._accounts]
    assert (worked_out(builder)["in_run", None]["code"] == "no_event_then") == is_told


def dear_loop(builder: TraceBuilder) -> None:
    add_loops(builder, scale=0.2)


def swift_account(builder: TraceBuilder) -> None:
    add_loops(builder)
    builder._accounts = [(*row[:5], row[5] // 3) for row in builder._accounts]


def skewed_clock(builder: TraceBuilder) -> None:
    add_loops(builder)
    builder._accounts = [
        (*row[:2], row[2] + 10**12, row[3] + 10**12, *row[4:]) for row in builder._accounts
    ]


def slow_clock(builder: TraceBuilder) -> None:
    add_loops(builder)
    builder._accounts = [(*row[:4], row[4] // 20, row[5] // 20) for row in builder._accounts]


def dropped_group(builder: TraceBuilder) -> None:
    add_loops(builder)
    builder._calls.clear()
    # So many that they matter.
    builder._accounts = [(*row[:4], 10 * row[4], 10 * row[5]) for row in builder._accounts]


def all_but_one_call_lost(builder: TraceBuilder) -> None:
    add_loops(builder)
    del builder._calls[1:]
    # So many that they matter.
    builder._accounts = [(*row[:4], 10 * row[4], 10 * row[5]) for row in builder._accounts]


def most_calls_lost(builder: TraceBuilder) -> None:
    """Lose what the OS kernel counted at the probe."""
    add_loops(builder)
    count = len(builder._calls)
    builder._calls = builder._calls[::4]
    builder.lost_calls("simulator", "f", count - len(builder._calls))


def doubted_before(builder: TraceBuilder) -> None:
    add_loops(builder)
    add_crowded(builder)
    row = builder._costs[-1]
    builder._costs[-1] = (
        *row[:9],
        *quality("measured_again_otherwise", 300, 600, subject="crowded_program").columns,
    )


def test_what_contradicts_a_way_that_no_cost_is_made_of_is_no_doubt() -> None:
    """Without an account of the recording, the loop alone tells what a call costs."""
    for is_kept in (True, False):
        builder = recorded(factor=1.5, misses=0)
        doubted_before(builder)
        if not is_kept:
            builder._accounts = []
        grade = worked_out(builder)["combined", "inside"]["quality"]
        assert (grade == "doubtful") == is_kept


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (all_but_one_call_lost, "runs_missing"),
        (most_calls_lost, "calls_missing"),
        (doubted_before, "measured_again_otherwise"),
        (dear_loop, "below_program"),
        (swift_account, "other_factor"),
        (skewed_clock, "windows_outside"),
        (slow_clock, "more_runs_in_trace"),
        (dropped_group, "no_event_then"),
    ],
)
def test_a_planted_fault_is_told(
    tmp_path: Path, fault: Callable[[TraceBuilder], None], code: str
) -> None:
    builder = recorded(factor=1.5, misses=0)
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
    assert used != [("ok",)]


CALLS = 4


def toggled(cost_ns: float, *, windows: int = 16, drift: float = 0.0) -> TraceBuilder:
    """Write iterations of 10 ms that take the longer the more calls are recorded.

    drift: by which part of itself the work grows meanwhile.
    """
    chance = np.random.default_rng(7)
    builder = TraceBuilder(Path("unused"))
    process = builder.process(pid=1, end_ns=windows * 400 * MS)
    states, now_ns, iterations = [], 0, []
    for number in range(windows):
        first_ns = number * 400 * MS + round(chance.uniform(110, 190) * MS)
        builder.cost_window("calls", first_ns, first_ns + 100 * MS)
        while now_ns < (number + 1) * 400 * MS:
            is_on = not first_ns <= now_ns < first_ns + 100 * MS
            work_ns = 10 * MS * (1 + drift * now_ns / (windows * 400 * MS))
            length_ns = round(work_ns * chance.normal(1, 0.001) + CALLS * cost_ns * is_on)
            iterations.append((now_ns, now_ns + length_ns, is_on))
            states += [run(length_ns), sleep(1000)]
            now_ns += length_ns + 1000
    thread = builder.thread(process, states=states)
    for start_ns, end_ns, is_on in iterations:
        builder.operation(thread, start_ns, end_ns, "iteration")
        for at in range(CALLS if is_on else 0):
            builder.native_call(thread, start_ns + 1 + 2 * at, start_ns + 2 + 2 * at, "simulator")
    return builder


def test_windows_without_probes_tell_what_these_cost() -> None:
    builder = toggled(10_000, drift=0.2)
    add_loops(builder, scale=10)
    found = worked_out(builder)
    check = found["toggled", None]
    assert check["low_ns"] < 10_000 < check["high_ns"]
    assert check["high_ns"] - check["low_ns"] < 5_000
    assert check["n"] >= 14
    assert found["combined", "inside"]["quality"] != "doubtful"


@pytest.mark.parametrize("scale", [5.0, 20.0])
def test_a_calibration_off_by_two_contradicts_them(scale: float) -> None:
    builder = toggled(10_000)
    add_loops(builder, scale=scale)
    grade, code, numbers = told(worked_out(builder)["combined", "inside"])
    assert (grade, code) == ("doubtful", "toggled_otherwise")
    assert numbers[0] == pytest.approx(1000 * scale)


def test_too_few_windows_without_probes_tell_nothing() -> None:
    builder = toggled(10_000, windows=5)
    add_loops(builder, scale=10)
    check = worked_out(builder)["toggled", None]
    assert check["mean_ns"] is None
    assert told(check) == ("not_measured", "few_toggled", [5])


def test_a_client_that_could_not_be_measured_is_taken_for_the_other_with_a_warning() -> None:
    builder = TraceBuilder(Path("unused"))
    for part, mean_ns in (("inside", 40.0), ("outside", 100.0)):
        builder.cost("range", mean_ns, part=part, error_ns=1)
    builder.cost("range_python", None, part=None, quality=quality("failed", detail="no nvtx"))
    with duckdb.connect() as connection:
        builder.fill(connection)
        store(connection)
        rows = connection.execute(
            "SELECT part, mean_ns, low_ns, high_ns, quality, code, subject"
            " FROM calibration_estimate WHERE event = 'range_python' AND used ORDER BY part"
        ).fetchall()
    assert [row[:2] for row in rows] == [("inside", 40.0), ("outside", 100.0)]
    for _, mean_ns, low_ns, high_ns, *why in rows:
        assert low_ns < 0.51 * mean_ns
        assert high_ns > 2.49 * mean_ns
        assert why == ["uncertain", "stand_in", "range"]


def test_a_switch_between_two_traced_threads_is_one_run() -> None:
    builder = TraceBuilder(Path("unused"))
    process = builder.process(pid=1, end_ns=4000)
    turns = [step for _ in range(1000) for step in (run(2), sleep(2))]
    builder.thread(process, states=turns)
    builder.thread(process, states=[sleep(2), *turns[:-1]])
    for number in range(4):
        builder.account("switch", number * 1000, number * 1000 + 1000, 500, 500 * 300)
    with duckdb.connect() as connection:
        builder.fill(connection)
        store(connection)
        rows = connection.execute("SELECT mean_ns, quality FROM calibration_estimate").fetchall()
    assert rows == [(pytest.approx(300), "ok")]


def test_quantiles_are_those_of_the_tables() -> None:
    for freedom, value in ((3, 3.182), (7, 2.365), (30, 2.042), (1000, 1.962)):
        assert t_quantile(freedom) == pytest.approx(value, rel=0.01)


def test_the_error_of_a_ratio_covers_the_truth() -> None:
    chance = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        bottoms = chance.uniform(50, 150, 12)
        tops = 3.0 * bottoms + chance.normal(0, 20, 12)
        value, stderr = ratio(tops.tolist(), bottoms.tolist())
        covered += abs(value - 3.0) <= t_quantile(11) * stderr
    assert 0.92 <= covered / 400 <= 0.98
