"""One clock for several machines: simulated ones, of which the true time is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from rlscope_analysis.fleet.clock import (
    Exchange,
    Instant,
    Knot,
    NodeClock,
    clock_of,
    fit_knots,
    fit_pairs,
    knot_of,
    node_clock,
)

S, MS, US = 10**9, 10**6, 10**3
Clock = Callable[[int], int]
LASTS = 16 * S
BURST_EVERY, BURST, PAIR_EVERY = S // 2, 40, 50 * MS


def raw_clock(chance: random.Random, start_ns: int, rate: float) -> Clock:
    """Return an oscillator that is off by a rate, and wanders with the heat."""
    wave, phase = chance.uniform(9, 40), chance.uniform(0, 6)

    def read(true_ns: int) -> int:
        wander = 2 * US * math.sin(2 * math.pi * true_ns / S / wave + phase)
        return start_ns + true_ns + round(rate * true_ns + wander)

    return read


def slewed(chance: random.Random, raw: Clock, start_ns: int) -> Clock:
    """Return the same as NTP slews it: by turns up to 500 ppm faster and slower."""
    turns = [0, *sorted(chance.sample(range(LASTS), 6)), 2 * LASTS]
    rates = [chance.choice([-480e-6, 0, 480e-6, chance.uniform(-4e-4, 4e-4)]) for _ in turns]

    def read(true_ns: int) -> int:
        gained = 0.0
        for rate, (begin, end) in zip(rates, pairwise(turns), strict=False):
            gained += rate * max(0, min(true_ns, end) - begin)
        return raw(true_ns) + start_ns + round(gained)

    return read


def exchange(
    chance: random.Random, asks: Clock, answers: Clock, true_ns: int, busy: float
) -> Exchange:
    """Let a message go and come back: neither way takes as long as the other."""
    lag = [round(chance.uniform(3, 12) * US + chance.expovariate(1 / busy) * US) for _ in range(3)]
    there = true_ns + lag[0]
    back = there + lag[1]
    return Exchange(asks(true_ns), answers(there), answers(back), asks(back + lag[2]))


@pytest.mark.parametrize("block", range(4))
def test_no_simulated_clock_is_off_by_more_than_its_bound(block: int) -> None:
    """100 runs: 30 ppm, slews of 500 ppm, asymmetric messages, idle and busy machines."""
    for run in range(25):
        chance = random.Random(100 * block + run)
        raw_a = raw_clock(chance, 0, chance.uniform(-30e-6, 30e-6))
        raw_b = raw_clock(chance, chance.randrange(10**16), chance.uniform(-30e-6, 30e-6))
        mono_a, mono_b = slewed(chance, raw_a, 7 * S), slewed(chance, raw_b, -3 * S)
        busy = chance.choice([0.2, 5, 60])
        knots = []
        for begin in range(0, LASTS + 1, BURST_EVERY):
            # Now and then something else has the CPU during a whole burst.
            load = busy if chance.random() < 0.9 else 500
            burst = [
                exchange(chance, raw_b, raw_a, begin + 200 * US * n, load) for n in range(BURST)
            ]
            knots.append(knot_of(burst))
        times = range(0, LASTS + 1, PAIR_EVERY)
        clock = node_clock(
            [(mono_b(at), raw_b(at)) for at in times],
            [knot for knot in knots if knot],
            [(mono_a(at), raw_a(at)) for at in times],
        )
        bounds = []
        for _ in range(60):
            at = chance.randrange(LASTS)
            found = clock.to_reference(mono_b(at))
            assert abs(found.at_ns - mono_a(at)) <= found.bound_ns
            bounds.append(found.bound_ns)
        assert max(bounds) <= 50 * US, (block, run, busy)


def test_the_bound_of_a_burst_is_half_of_its_fastest_message_and_answer() -> None:
    slow, fast = Exchange(0, 1090, 1090, 200), Exchange(100, 1120, 1130, 150)
    knot = knot_of([slow, fast])
    assert knot is not None
    # 1020 one way, 980 the other: the true offset lies between, whichever took longer.
    assert knot.at_ns == 125
    assert knot.offset_ns == 1000
    assert 20 <= knot.bound_ns <= 23


def test_a_burst_that_cannot_be_true_tells_nothing() -> None:
    assert knot_of([Exchange(0, 0, 1000, 10)]) is None
    assert knot_of([]) is None


def test_before_the_first_and_after_the_last_burst_the_bound_grows() -> None:
    offsets = fit_knots([Knot(0, 100, 5), Knot(10 * S, 100, 5)])
    assert offsets.at(5 * S).bound_ns < offsets.at(20 * S).bound_ns < offsets.at(60 * S).bound_ns
    assert offsets.at(-S).bound_ns > 5 + 10 * US - 1


def test_a_clock_that_leaps_is_trusted_less_there() -> None:
    """A machine that was moved: the offset changes by 5 ms between two bursts."""
    steady = [Knot(n * S, 0, 10) for n in range(10)]
    leaped = [Knot(n * S, 5 * MS, 10) for n in range(10, 20)]
    offsets = fit_knots([*steady, *leaped])
    middle = 9 * S + S // 2
    assert offsets.at(middle).bound_ns >= 2 * MS


def test_one_burst_is_enough_for_a_clock() -> None:
    offsets = fit_knots([Knot(S, 100, 5)])
    assert offsets.at(S) == Instant(S + 100, 6)
    assert offsets.at(2 * S).bound_ns >= 1000 * US


def test_without_any_burst_there_is_no_clock() -> None:
    with pytest.raises(ValueError, match="nothing is known"):
        fit_knots([])
    with pytest.raises(ValueError, match="nothing is known"):
        fit_pairs([])


def test_order_is_told_outside_of_the_bounds_only() -> None:
    assert Instant(10, 4).is_before(Instant(20, 5))
    assert not Instant(10, 5).is_before(Instant(20, 5))
    assert not Instant(20, 0).is_before(Instant(10, 0))


def test_the_reference_is_on_its_own_clock() -> None:
    assert clock_of({"is_reference": True}) == NodeClock(())
    assert NodeClock(()).to_reference(17) == Instant(17, 0)


@pytest.mark.parametrize(
    "found",
    [
        {}, {"pairs": [], "knots": [], "reference_pairs": []},
        {"pairs": [[0, 1.5]], "knots": [[0, 0, 0]], "reference_pairs": [[0, 0]]},
        {"pairs": [[0, 0]], "knots": [[0, 0, -1]], "reference_pairs": [[0, 0]]},
        {"pairs": [[0]], "knots": [[0, 0, 0]], "reference_pairs": [[0, 0]]},
        {"pairs": [[0, 1 << 70]], "knots": [[0, 0, 0]], "reference_pairs": [[0, 0]]},
        {"pairs": [[0, True]], "knots": [[0, 0, 0]], "reference_pairs": [[0, 0]]},
    ],
)  # fmt: skip
def test_a_clock_of_a_stranger_is_refused(found: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        clock_of(found)
