"""The noise model of `compare`, on made-up times of which the truth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rlscope_analysis.compare.comparison import compare
from rlscope_analysis.compare.run import COUNT, STEPS, WALL, Run
from rlscope_analysis.compare.spread import BLOCKS, RUNS, difference, units_of, warm_up
from rlscope_analysis.compare.student import adjusted, quantile, two_sided

if TYPE_CHECKING:
    import numpy.typing as npt

    Times = npt.NDArray[np.float64]

ITERATIONS = 80
PARTS = ("simulation", "inference", "backpropagation")


def times(chance: np.random.Generator, *, run: float, iteration: float, alike: float) -> Times:
    """Return times around 1; run, iteration: by how much these differ; alike: from the last."""
    noise = np.empty(ITERATIONS)
    noise[0] = chance.normal()
    for at in range(1, ITERATIONS):
        noise[at] = alike * noise[at - 1] + np.sqrt(1 - alike**2) * chance.normal()
    found: Times = 1 + run * chance.normal() + iteration * noise
    return found


def made(
    chance: np.random.Generator,
    *,
    slower: float = 0.0,
    drift: float = 0.0,
    disturbed: float = 0.0,
    **noise: float,
) -> Run:
    """Return a run of three operations; slower: simulation; drift: from start to end, of all.

    disturbed: by which part of their time others slow down its iterations, at the most: some runs
    much, some little, and all that is in an iteration.
    """
    series: dict[tuple[str, ...], Any] = {}
    others = 1 + disturbed * chance.uniform() * chance.exponential(size=ITERATIONS)
    for name in PARTS:
        of = times(chance, **noise) * (1 + drift * np.linspace(0, 1, ITERATIONS)) * others
        of *= 1 + slower * (name == "simulation")
        series[WALL, "leading", name, "", "running"] = np.rint(of * 10_000_000).astype(np.int64)
    series[STEPS] = np.full(ITERATIONS, 64, np.int64)
    return Run("a", "recording", "phases", np.ones(ITERATIONS, np.int64), series, None, {}, {})


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (7, 2.36462), (30, 2.04227)],
)
def test_quantiles_of_student_as_in_the_tables(freedom: int, expected: float) -> None:
    assert quantile(0.95, freedom) == pytest.approx(expected, abs=1e-4)
    assert two_sided(expected, freedom) == pytest.approx(0.05, abs=1e-5)
    assert two_sided(0, freedom) == 1


def test_benjamini_and_hochberg_by_hand() -> None:
    assert adjusted([0.04, 0.01, 0.03, 0.5]) == pytest.approx([0.16 / 3, 0.04, 0.16 / 3, 0.5])
    assert adjusted([]) == []


@pytest.mark.parametrize("runs", [2, 3, 5])
@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_intervals_of_runs_hold_the_truth(runs: int, alike: float) -> None:
    """Also where iterations are alike: a run is one value. 600 pairs: 93 to 97 % are chance."""
    chance = np.random.default_rng(1)
    units, held, pairs = units_of(runs, runs, 0, ITERATIONS), 0, 600
    assert units.kind == RUNS
    for _ in range(pairs):
        base, new = (
            [times(chance, run=0.02, iteration=0.05, alike=alike) for _ in range(runs)]
            for _ in range(2)
        )
        found = difference(base, [run + 0.1 for run in new], units)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.1 <= found.high
    assert held / pairs >= 0.93


@pytest.mark.parametrize("alike", [0.0, 0.6, 0.9])
@pytest.mark.parametrize("run", [0.0, 0.01])
def test_one_run_a_side_seldom_sees_what_is_not_there(alike: float, run: float) -> None:
    """A run differs from the next by 1 %, iterations by 5 %: neither may be taken for a change."""
    chance = np.random.default_rng(2)
    units, alarms, pairs = units_of(1, 1, 0, ITERATIONS), 0, 400
    assert units.kind == BLOCKS
    for _ in range(pairs):
        base, new = (times(chance, run=run, iteration=0.05, alike=alike) for _ in range(2))
        found = difference([base], [new], units)
        assert found.probability is not None
        alarms += found.probability < 0.05
    assert alarms / pairs <= 0.05


@pytest.mark.parametrize(("runs", "run"), [(1, 0.01), (1, 0.05), (3, 0.01), (5, 0.01)])
def test_a_program_with_itself_is_seldom_another(runs: int, run: float) -> None:
    """The whole verdict, over all parts: at most 5 %, with what 200 pairs leave open."""
    chance = np.random.default_rng(3)
    noise = {"run": run, "iteration": 0.05, "alike": 0.5}
    alarms = 0
    for _ in range(200):
        sides = [[made(chance, drift=0.2, **noise) for _ in range(runs)] for _ in range(2)]
        alarms += compare(*sides).verdict in {"better", "worse", "different"}
    assert alarms <= 16  # more: p < 0.03 at a true 5 %


def test_one_run_a_side_finds_what_is_large_and_where() -> None:
    chance = np.random.default_rng(10)
    noise = {"run": 0.01, "iteration": 0.05, "alike": 0.5}
    for _ in range(20):
        result = compare([made(chance, **noise)], [made(chance, slower=1.0, **noise)])
        assert result.verdict == "worse"
        assert result.cause is not None
        assert result.cause.key[2] == "simulation"


def test_five_runs_find_five_percent_and_where() -> None:
    chance = np.random.default_rng(4)
    noise = {"run": 0.01, "iteration": 0.05, "alike": 0.5}
    found = 0
    for _ in range(60):
        base = [made(chance, **noise) for _ in range(5)]
        new = [made(chance, slower=0.05, **noise) for _ in range(5)]
        result = compare(base, new)
        found += (
            result.verdict == "worse"
            and result.cause is not None
            and result.cause.key[2] == "simulation"
        )
    assert found >= 54


def test_what_neighbours_add_hides_no_five_percent() -> None:
    """The means of 30 such pairs of sides tell of none."""
    chance = np.random.default_rng(9)
    noise = {"run": 0.005, "iteration": 0.01, "alike": 0.5, "disturbed": 0.25}
    alarms = found = 0
    for _ in range(30):
        base, same = ([made(chance, **noise) for _ in range(5)] for _ in range(2))
        alarms += compare(base, same).verdict in {"better", "worse", "different"}
        result = compare(base, [made(chance, slower=0.05, **noise) for _ in range(5)])
        found += (
            result.verdict == "worse"
            and result.cause is not None
            and result.cause.key[2] == "simulation"
        )
        for change in result.changes:
            assert (change.fastest is not None) == change.is_sum
    assert found >= 27
    assert alarms <= 4  # more: p < 0.03 at a true 5 %


def test_drift_that_both_have_is_no_change() -> None:
    """Runs of other lengths: only the iterations that all have are compared."""
    chance = np.random.default_rng(5)
    long, short = (made(chance, drift=0.5, run=0, iteration=0.001, alike=0) for _ in range(2))
    cut = {key: sums[:40] for key, sums in short.series.items()}
    short = Run("b", "recording", "phases", np.ones(40, np.int64), cut, None, {}, {})
    found = compare([long], [short])
    assert abs(found.duration.change) < 0.01 * found.duration.base
    assert found.verdict == "unknown"
    assert found.iterations == (80, 40)


def test_warm_up_is_left_out_and_nothing_else() -> None:
    chance = np.random.default_rng(6)
    steady = [1 + 0.02 * chance.normal(size=60) for _ in range(4)]
    assert warm_up(steady) == 0
    for slow in (3, 10):
        started = [values.copy() for values in steady]
        started[2][:slow] += np.linspace(2, 0.5, slow)
        assert warm_up(started) == pytest.approx(slow, abs=1)
    assert warm_up([]) == 0


def test_without_an_interval_nothing_is_said() -> None:
    """One iteration a side, and it differs: that may be anything."""
    chance = np.random.default_rng(7)
    runs = []
    for _ in range(2):
        whole = made(chance, run=0.1, iteration=0.1, alike=0)
        runs.append(
            Run("a", "recording", "whole", np.ones(1, np.int64),
                {key: sums[:1] for key, sums in whole.series.items()}, None, {}, {})
        )  # fmt: skip
    found = compare(runs[:1], runs[1:])
    assert found.verdict == "unknown"
    assert found.duration.low is None
    assert compare(runs[:1], runs[:1]).verdict == "same"


def counted(*runs: list[int]) -> list[Run]:
    """Return runs of which nothing is known but how often something happened."""
    time = (WALL, "leading", "step", "", "running")
    resets = (COUNT, "other_operations", "reset")
    return [
        Run(
            "a", "recording", "phases", np.ones(len(counts), np.int64),
            {time: np.full(len(counts), 1000), resets: np.array(counts)}, None, {}, {},
        )
        for counts in runs
    ]  # fmt: skip


@pytest.mark.parametrize(("base", "new"), [(1, 1), (1, 2), (2, 2), (3, 3)])
@pytest.mark.parametrize("mean", [0.05, 0.5, 5])
def test_counts_of_chance_are_no_other_program(base: int, new: int, mean: float) -> None:
    """Runs of which two happen to have the same mean: how much counts vary is seen in each."""
    chance = np.random.default_rng(8)
    alarms = 0
    for _ in range(60):
        sides = [
            counted(*(chance.poisson(mean, ITERATIONS).tolist() for _ in range(runs)))
            for runs in (base, new)
        ]
        alarms += compare(*sides).verdict == "different"
    assert alarms <= 1


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        ([0, 4, 4], [0, 5, 5], "different"),
        ([0, 5, 6], [0, 11, 12], "different"),
        ([0, 5, 6], [0, 7, 9], "unknown"),
        ([0, *[5, 6] * 4], [0, *[7, 8] * 4], "different"),
        ([4], [5], "different"),
    ],
)
def test_counts_of_few_iterations(base: list[int], new: list[int], expected: str) -> None:
    assert compare(counted(base), counted(new)).verdict == expected
