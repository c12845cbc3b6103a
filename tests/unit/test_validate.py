"""The statistics of validate: what is planted in pairs of runs is what comes out."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rlscope_trace.record.medians import estimate, median_interval
from rlscope_trace.record.validate.compare import compare, neighbour_differences, noise_halves
from rlscope_trace.record.validate.pairs import Pair
from rlscope_trace.record.validate.per_operation import (
    operation_overheads,
    per_iteration,
    share_errors,
)
from rlscope_trace.record.validate.plan import orders, run_pairs
from rlscope_trace.record.validate.runs import Run
from rlscope_trace.record.validate.trace_figures import BucketTime, TraceFigures
from rlscope_trace.record.validate.verdict import Asked, validate

S = 10**9
ASKED = Asked(("train",), (), runs=9, max_bias=5.0, per=None)


def figures(overhead_ns: float, *, error_ns: float = 0.0, **values: object) -> TraceFigures:
    bucket_times = (
        BucketTime("simulation", "python", True, 6 * S, overhead_ns * 0.75),
        BucketTime("(unannotated)", "python", True, 4 * S, overhead_ns * 0.25),
    )
    made = TraceFigures(bucket_times, error_ns, error_ns, overhead_ns, {"simulation": 100}, 0, {})
    return replace(made, **values)  # type: ignore[arg-type]


def pair(
    untraced_s: float = 10, traced_s: float = 11, *, reported_s: float = 1, **values: object
) -> Pair:
    return Pair(
        Run(int(untraced_s * S), int(untraced_s * S), 1),
        Run(int(traced_s * S), int(traced_s * S), 1),
        figures(reported_s * S, **values),
        traced_first=False,
    )


def test_a_planted_overhead_is_taken_off_and_nothing_else() -> None:
    found = compare([pair() for _ in range(9)])
    assert found.inflation.median == pytest.approx(10)
    assert found.overhead.median == pytest.approx(10)
    assert found.bias.median == pytest.approx(0)
    assert found.wall_inflation.median == pytest.approx(10)
    assert found.wall_bias.median == pytest.approx(0)
    assert (found.covered, found.covered_by_costs) == (9, 9)


@pytest.mark.parametrize(("reported_s", "bias"), [(2.0, -10.0), (0.5, 5.0)])
def test_a_calibration_off_by_two_is_seen_as_bias(reported_s: float, bias: float) -> None:
    pairs = [pair(reported_s=reported_s, error_ns=0.1 * S) for _ in range(9)]
    found = validate(pairs, replace(ASKED, max_bias=4))
    assert found.figures.bias.median == pytest.approx(bias)
    assert found.figures.bias.low == found.figures.bias.high == pytest.approx(bias)
    assert found.figures.covered == 0
    assert found.is_biased


def test_the_bias_may_be_as_large_as_allowed_and_no_larger() -> None:
    pairs = [pair(reported_s=0.75) for _ in range(3)]
    assert not validate(pairs, replace(ASKED, max_bias=2.6)).is_biased
    assert validate(pairs, replace(ASKED, max_bias=2.4)).is_biased
    assert validate([pair(reported_s=1.25)], replace(ASKED, max_bias=2.4)).is_biased


def test_one_slow_pair_moves_neither_median_nor_verdict() -> None:
    pairs = [pair() for _ in range(8)] + [pair(untraced_s=10, traced_s=30)]
    found = validate(pairs, ASKED)
    assert found.figures.bias.median == pytest.approx(0)
    assert found.figures.covered == 8
    assert not found.is_biased


def test_the_same_program_twice_shows_no_inflation_beyond_its_noise() -> None:
    random_source = random.Random(1)
    pairs = [
        pair(random_source.gauss(10, 0.5), random_source.gauss(10, 0.5), reported_s=0)
        for _ in range(99)
    ]
    found = compare(pairs)
    assert found.inflation.low is not None
    assert found.inflation.high is not None
    assert found.inflation.low < 0 < found.inflation.high
    assert found.noise is not None
    # Two of them differ by 7 %: the interval of nine in ten pairs at least holds the truth.
    assert 3 < found.noise.median < 7
    assert found.covered >= 90
    assert found.covered_by_costs == 0


def test_intervals_of_costs_and_noise_are_put_together() -> None:
    # Off by 5 %: within the error of the costs, though runs do not differ at all.
    wide = [pair(reported_s=0.5, error_ns=0.6 * S) for _ in range(3)]
    assert compare(wide).covered_by_costs == 3
    narrow = [pair(reported_s=0.5, error_ns=0.4 * S) for _ in range(3)]
    assert compare(narrow).covered_by_costs == 0


def test_intervals_are_those_of_the_sign_test() -> None:
    assert median_interval(range(9)) == (1, 7)
    assert median_interval(range(6)) == (0, 5)
    assert median_interval(range(5)) is None
    few = estimate([3.0, 1.0, 2.0])
    assert few is not None
    assert (few.median, few.low, few.high, few.n) == (2.0, None, None, 3)
    assert estimate([]) is None


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    random_source = random.Random(7)
    held = 0
    for _ in range(2000):
        low, high = median_interval([random_source.expovariate(1) for _ in range(9)]) or (0, 0)
        held += low <= 0.6931 <= high
    assert 0.94 < held / 2000 < 0.98


def test_differences_are_those_of_neighbours() -> None:
    assert neighbour_differences([2, 1, 2]) == [1, -0.5]


def test_the_noise_of_nine_pairs_holds_as_many_of_them_as_it_says() -> None:
    random_source = random.Random(3)
    held = 0
    for _ in range(1000):
        ratios = [random_source.gauss(0, 0.01) for _ in range(9)]
        held += sum(abs(r) <= n for r, n in zip(ratios, noise_halves(ratios), strict=True))
    assert 0.94 < held / 9000 < 0.96


def test_a_pair_has_no_say_in_its_own_noise() -> None:
    few = [1.0, 1.01, 1.0, 1.01, 5.0]
    *others, wild = noise_halves(few)
    assert wild == pytest.approx(8.37 * 0.005)
    assert others == pytest.approx([wild] * 4)
    assert noise_halves(few[:4]) == []
    assert compare([pair() for _ in range(4)]).covered is None


def test_one_wild_pair_hides_no_bias() -> None:
    pairs = [pair(traced_s=11 + 0.01 * number, reported_s=0.5) for number in range(8)]
    assert compare([*pairs, pair(traced_s=20)]).covered == 0


def test_each_order_occurs_as_often_as_the_other() -> None:
    for runs in (1, 8, 9):
        assert sum(orders(runs)) == runs // 2
    assert len({tuple(orders(8, seed)) for seed in range(20)}) > 5


def test_pairs_are_run_in_the_order_that_was_drawn(tmp_path: object) -> None:
    made: list[str] = []

    class Recorded:
        def untraced(self) -> Run:
            made.append("untraced")
            return Run(S, S, 5)

        def traced(self, _trace: object) -> Run:
            made.append("traced")
            return Run(S, S, 6)

    def read(_trace: object, pid: int) -> TraceFigures:
        assert pid == 6
        made.append("read")
        return figures(0)

    pairs = list(run_pairs(Recorded(), 6, lambda _number: tmp_path, read, seed=2))  # type: ignore[arg-type]
    expected = []
    for traced_first in orders(6, 2):
        both = ["traced", "untraced"] if traced_first else ["untraced", "traced"]
        # Never while a run is under way.
        expected += [*both, "read"]
    assert made == expected
    assert [pair.traced_first for pair in pairs] == orders(6, 2)


def timed(untraced_ns: dict[str, int], traced_ns: dict[str, int]) -> Pair:
    plain = pair()
    return replace(
        plain,
        untraced=replace(plain.untraced, timers_ns=untraced_ns),
        traced=replace(plain.traced, timers_ns=traced_ns),
    )


def test_shares_are_held_to_timers_in_points_of_the_whole() -> None:
    (row,) = share_errors([timed({"simulation": 5 * S}, {"simulation": 6 * S})])
    # 6 - 0.75 of 10 - 1 s, where 5 of 10 s are true.
    assert row.untraced == pytest.approx(50)
    assert row.measured == pytest.approx(60)
    assert row.corrected == pytest.approx(100 * 5.25 / 9)
    assert row.error.median == pytest.approx(100 * 5.25 / 9 - 50)


def test_an_operation_of_other_processes_is_not_what_was_timed() -> None:
    made = timed({"simulation": 5 * S}, {"simulation": 6 * S})
    elsewhere = BucketTime("simulation", "python", False, 10 * S, 0)
    made = replace(
        made, trace=replace(made.trace, bucket_times=(*made.trace.bucket_times, elsewhere))
    )
    (row,) = share_errors([made])
    assert row.measured == pytest.approx(30)


def test_what_has_timers_is_compared_by_itself() -> None:
    found = compare([timed({"simulation": 5 * S}, {"simulation": 6 * S})])
    assert found.timed_inflation is not None
    assert found.timed_bias is not None
    assert found.timed_inflation.median == pytest.approx(20)
    assert found.timed_bias.median == pytest.approx(5)
    without = compare([pair()])
    assert without.timed_inflation is None
    assert without.timed_bias is None


def test_a_timer_of_what_no_trace_has_is_left_out_with_a_word() -> None:
    timers = {"simulation": 5 * S, "elsewhere": S}
    found = validate([timed(timers, timers)] * 6, ASKED)
    assert [row.operation for row in found.shares] == ["simulation"]
    assert found.figures.timed_inflation is not None
    assert found.figures.timed_bias is None
    assert any("not compared: elsewhere have timers" in text for text in found.warnings)


def test_times_of_a_bucket_add_up_whatever_run_lacks_them() -> None:
    rows = operation_overheads([pair(), pair(), pair(reported_s=3)])
    assert [(row.operation, row.overhead_ns) for row in rows] == [
        ("simulation", 0.75 * S), ("(unannotated)", 0.25 * S),
    ]  # fmt: skip
    assert all(row.measured_ns - row.overhead_ns == row.corrected_ns for row in rows)
    lacking = replace(pair(), trace=replace(figures(0), bucket_times=()))
    assert operation_overheads([pair(), lacking, lacking])[0].measured_ns == 0


def test_times_per_iteration_need_one_in_every_run() -> None:
    found = per_iteration([pair(), pair()], "simulation")
    assert found is not None
    assert found.untraced_ns == pytest.approx(0.1 * S)
    assert found.corrected_ns == pytest.approx(0.1 * S)
    assert per_iteration([pair(), pair(instances={})], "simulation") is None


def test_every_reason_to_doubt_is_told_once() -> None:
    doubtful = [
        pair(0.5, 0.6, lost=3, warnings={"call": "too few windows"}),
        pair(0.9, 0.9, instances={"simulation": 99}),
    ]
    doubtful[1] = replace(doubtful[1], traced=replace(doubtful[1].traced, left_running=True))
    reported = validate(doubtful, replace(ASKED, per="simulation")).warnings
    assert [text for text in reported if "stopped early: 2 of 9 pairs" in text]
    assert [text for text in reported if "0.50 s of CPU time" in text]
    assert [text for text in reported if "2 pairs are too few" in text]
    assert [text for text in reported if "untraced runs differ by 44.4 %" in text]
    assert [text for text in reported if "differs between traced runs (99 to 100)" in text]
    assert [text for text in reported if "1 of 2 traces lost records" in text]
    assert [
        text for text in reported if "the cost of call, in 1 of 2 traces: too few windows" in text
    ]
    assert [text for text in reported if "left processes running" in text]
    assert len(reported) == 8
    assert validate([pair() for _ in range(9)], ASKED).warnings == ()
