"""From disturbed measurements to estimates: planted costs, planted noise."""

import random
import statistics

import pytest

from rlscope_analysis.schema.facts.qualities import GOOD
from rlscope_trace.record.calibrate.estimate import Estimate, added, calm, estimate, split
from rlscope_trace.record.calibrate.results import Values, failed, quality_of
from rlscope_trace.spool.costs import Cost

BASE_NS = 2000.0
COST_NS = 150.0


def turns(
    rng: random.Random, cost_ns: float, *, count: int = 41, disturbed: float = 0.4
) -> list[float]:
    """Return turns of which a part was made longer, some by very much."""
    return [
        BASE_NS
        + cost_ns
        + rng.gauss(0, 5)
        + (rng.expovariate(1 / 3000) if rng.random() < 0.4 else 0)
        for _ in range(count)
    ]


def measured(rng: random.Random, cost_ns: float, visits: int = 15) -> list[float]:
    """Return what so many measurements of a planted cost give."""
    return [added(turns(rng, cost_ns), turns(rng, 0.0)) for _ in range(visits)]


@pytest.mark.parametrize("seed", range(8))
def test_a_planted_cost_is_found_under_heavy_noise(seed: int) -> None:
    rng = random.Random(seed)
    values = measured(rng, COST_NS)
    found = estimate(values)
    assert found is not None
    assert abs(found.mean_ns - COST_NS) < 0.05 * COST_NS
    # The mean of the same turns is far off: the noise is worth planting.
    plain = statistics.mean(turns(rng, COST_NS)) - BASE_NS
    assert plain > 2 * COST_NS


def test_intervals_hold_the_planted_cost_as_often_as_they_say() -> None:
    rng = random.Random(1)
    made = [estimate(measured(rng, COST_NS, visits=9)) for _ in range(150)]
    held = sum(
        found is not None
        and found.low_ns is not None
        and found.high_ns is not None
        and found.low_ns <= COST_NS <= found.high_ns
        for found in made
    )
    assert held >= 0.9 * len(made)


def test_an_interval_of_nothing_holds_zero() -> None:
    found = estimate(measured(random.Random(3), 0.0))
    assert found is not None
    assert found.low_ns is not None
    assert found.high_ns is not None
    assert found.low_ns < 0 < found.high_ns
    assert quality_of(found).code == "zero"


def test_a_wild_measurement_moves_neither_the_mean_nor_the_spread_by_much() -> None:
    values = [100.0, 101.0, 99.0, 102.0, 98.0, 100.5, 99.5]
    calm_one, wild = estimate(values), estimate([*values, 1e6])
    assert calm_one is not None
    assert wild is not None
    assert abs(wild.mean_ns - calm_one.mean_ns) < 1
    assert wild.stddev_ns < 3 * calm_one.stddev_ns


def test_few_values_give_no_interval_and_none_no_estimate() -> None:
    assert estimate([]) is None
    found = estimate([5.0] * 5)
    assert found == Estimate(5.0, 0.0, 5, None, None)
    assert quality_of(found).code == "few_measurements"


def test_calm_is_the_lower_quartile() -> None:
    assert calm([4.0, 1.0, 3.0, 2.0, 5.0]) == 2.0
    assert calm([1.0, 2.0]) == 1.25
    assert calm([7.0]) == 7.0


@pytest.mark.parametrize("seed", range(5))
def test_the_parts_of_a_cost_add_up_to_it(seed: int) -> None:
    rng = random.Random(seed)
    totals = [rng.gauss(1000, 80) for _ in range(12)]
    insides = [rng.gauss(400, 50) for _ in range(12)]
    parts, whole = split(totals, insides), estimate(totals)
    assert parts is not None
    assert whole is not None
    assert sum(part.mean_ns for part in parts) == pytest.approx(whole.mean_ns, abs=1e-9)
    for part in parts:
        assert part.low_ns is not None
        assert part.high_ns is not None
        assert part.low_ns <= part.mean_ns <= part.high_ns


def test_rows_say_what_they_are_and_what_to_think_of_them() -> None:
    values = Values()
    for value in range(100, 110):
        values.add("wakeup", "btf", float(value))
        values.add_split("call", "session", 10.0 * value, 4.0 * value)
    rows = {(row.event, row.part): row for row in values.costs()}
    assert set(rows) == {
        ("wakeup", "outside"), ("call", "inside"), ("call", "outside"),
    }  # fmt: skip
    wakeup = rows["wakeup", "outside"]
    assert (wakeup.how, wakeup.mean_ns, wakeup.n, wakeup.quality) == ("btf", 104.5, 10, GOOD)
    inside, outside = (rows["call", part].mean_ns for part in ("inside", "outside"))
    assert inside is not None
    assert outside is not None
    assert (inside, inside + outside) == (418.0, 1045.0)


def test_a_wide_interval_is_a_warning() -> None:
    assert quality_of(Estimate(100.0, 40.0, 9, 60.0, 140.0)).code == "wide"
    assert quality_of(Estimate(100.0, 5.0, 9, 90.0, 110.0)) == GOOD


def test_a_cost_that_is_not_measured_has_no_number() -> None:
    row = Cost("cuda_call", None, quality=failed("no NVIDIA GPU"))
    assert (row.mean_ns, row.stddev_ns, row.low_ns, row.high_ns, row.n) == (*[None] * 4, 0)
