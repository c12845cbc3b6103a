"""The governor on simulated programs: what it drops, what it never drops, and what it says."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlscope_analysis.sentences import site_sentence
from rlscope_trace.record.governor import Decision, Governor, ProbeCost

WINDOW_NS = 250_000_000
COST_NS = 2000
BUDGET = 0.02
# A call costs the same wherever it is.
EVEN = ProbeCost(COST_NS, COST_NS)


@dataclass
class Site:
    """Calls per second of CPU time, and how long each takes."""

    rate: float
    mean_ns: int = 10_000

    @property
    def share(self) -> float:
        """What probing it costs."""
        return self.rate * COST_NS / 1e9


@dataclass
class Simulated:
    """A program that uses one CPU all the time, and the governor that looks at it."""

    sites: dict[int, Site]
    governor: Governor = field(default_factory=lambda: Governor(BUDGET, EVEN))
    now_ns: int = 0
    hits: dict[int, float] = field(default_factory=dict)
    dropped: dict[int, Decision] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.governor.decide(0, 0, {}) == []

    def run(self, windows: int, *, density: float = 1.0) -> None:
        """Let it run for some windows, with so many times its calls."""
        for _ in range(windows):
            self.now_ns += WINDOW_NS
            for site_id, site in self.sites.items():
                if site_id not in self.dropped:
                    more = site.rate * density * WINDOW_NS / 1e9
                    self.hits[site_id] = self.hits.get(site_id, 0.0) + more
            for decision in self.governor.decide(self.now_ns, self.now_ns, self._counters()):
                assert decision.site_id not in self.dropped
                self.dropped[decision.site_id] = decision

    def _counters(self) -> dict[int, tuple[int, int]]:
        return {
            site_id: (int(hits), int(hits) * self.sites[site_id].mean_ns)
            for site_id, hits in self.hits.items()
        }

    @property
    def left(self) -> float:
        """Cost of what is still probed."""
        return sum(s.share for site_id, s in self.sites.items() if site_id not in self.dropped)


def test_a_getter_called_all_the_time_goes_in_the_first_window() -> None:
    program = Simulated({1: Site(rate=1_000_000, mean_ns=300), 2: Site(rate=500, mean_ns=200_000)})
    program.run(1)
    assert [*program.dropped] == [1]
    program.run(400)
    assert [*program.dropped] == [1]


def test_one_site_a_little_over_the_budget_goes_in_the_end() -> None:
    program = Simulated({1: Site(rate=11_000)})
    program.run(8)
    assert program.dropped == {}
    program.run(400)
    assert [*program.dropped] == [1]


def test_bursts_within_the_budget_are_no_reason() -> None:
    # One window in 20 has a cost of 20 %: 1 % in the long run.
    program = Simulated({1: Site(rate=5_000)})
    for _ in range(100):
        program.run(1, density=20)
        program.run(19, density=0)
    assert program.dropped == {}


def test_bursts_over_the_budget_are_one() -> None:
    program = Simulated({1: Site(rate=5_000)})
    for _ in range(100):
        program.run(1, density=20)
        program.run(5, density=0)
    assert [*program.dropped] == [1]


def test_of_two_hot_sites_the_shorter_one_goes() -> None:
    program = Simulated({1: Site(rate=8_000, mean_ns=90_000), 2: Site(rate=8_000, mean_ns=900)})
    program.run(100)
    assert [*program.dropped] == [2]


def test_a_short_site_that_costs_nothing_stays() -> None:
    program = Simulated({1: Site(rate=20, mean_ns=100), 2: Site(rate=40_000, mean_ns=5_000)})
    program.run(100)
    assert [*program.dropped] == [2]


def test_a_site_that_fits_once_a_larger_one_is_gone_stays() -> None:
    program = Simulated({1: Site(rate=15_000, mean_ns=30_000), 2: Site(rate=3_000, mean_ns=3_000)})
    program.run(200)
    assert [*program.dropped] == [1]


def test_many_small_sites_are_brought_within_the_budget() -> None:
    program = Simulated({site: Site(rate=100, mean_ns=1_000 + site) for site in range(500)})
    program.run(200)
    assert program.dropped
    assert BUDGET * 0.9 <= program.left <= BUDGET
    # The shortest of equals.
    assert sorted(program.dropped) == list(range(len(program.dropped)))


def test_a_site_that_becomes_hot_late_goes_as_soon_as_one_that_was_hot_from_the_start() -> None:
    program = Simulated({1: Site(rate=1.0)})
    program.run(20_000)
    program.sites[1].rate = 60_000
    program.run(5)
    assert [*program.dropped] == [1]


def test_calls_before_the_first_look_count_for_nothing() -> None:
    governor = Governor(BUDGET, EVEN)
    assert governor.decide(10**9, 5 * 10**9, {1: (10**7, 10**10)}) == []
    assert governor.decide(2 * 10**9, 6 * 10**9, {1: (10**7, 10**10)}) == []


def test_cpu_time_that_stands_still_does_not_drop_what_is_not_called_much() -> None:
    governor = Governor(BUDGET, EVEN)
    governor.decide(0, 0, {})
    counters = {1: (100_000, 10**9), 2: (3, 30_000)}
    assert [d.site_id for d in governor.decide(WINDOW_NS, 0, counters)] == [1]


def sentence(decision: Decision) -> str:
    return site_sentence("dropped", decision.code, None, decision.numbers)


def test_the_reason_tells_users_what_was_seen() -> None:
    program = Simulated({1: Site(rate=65_000, mean_ns=3_100)})
    program.run(3)
    assert program.dropped == {}
    program.run(1)
    (decision,) = program.dropped.values()
    assert sentence(decision) == (
        "dropped: after 1.0 s: 65,000 calls of 3.1 us would cost 13 % of the CPU time (budget 2 %)"
    )
    assert (decision.hits, decision.mean_ns) == (65_000, 3_100)


def test_the_reason_names_the_total_where_no_site_alone_is_over() -> None:
    program = Simulated({site: Site(rate=7_000, mean_ns=800) for site in range(2)})
    program.run(400)
    (decision,) = program.dropped.values()
    assert "would cost 1.4 % of the CPU time, all probes 2.8 % (budget 2 %)" in sentence(decision)


SITES = st.dictionaries(
    st.integers(0, 200),
    st.builds(Site, rate=st.floats(0, 300_000), mean_ns=st.integers(50, 10_000_000)),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(SITES)
def test_what_remains_is_within_the_budget(sites: dict[int, Site]) -> None:
    program = Simulated(sites)
    # 100 % of what the allowance saves is used up within 50 budgets' worth of time at 2 % over it.
    program.run(1200)
    assert program.left <= BUDGET * 1.02


@settings(max_examples=60, deadline=None)
@given(SITES)
def test_nothing_goes_that_did_not_have_to(sites: dict[int, Site]) -> None:
    program = Simulated(sites)
    program.run(400)
    if sum(site.share for site in sites.values()) <= BUDGET * 0.98:
        assert program.dropped == {}
    assert all(sites[site_id].rate > 0 for site_id in program.dropped)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0, 0.95), st.lists(st.floats(0, 2), min_size=8, max_size=8), st.integers(50, 10**7)
)
def test_a_site_within_the_budget_alone_is_never_dropped(
    part: float, densities: list[float], mean_ns: int
) -> None:
    average = max(1.0, sum(densities) / len(densities))
    program = Simulated({7: Site(rate=part * BUDGET * 1e9 / COST_NS / average, mean_ns=mean_ns)})
    for _ in range(40):
        for density in densities:
            program.run(1, density=density)
    assert program.dropped == {}


def test_a_call_through_a_expensive_probe_counts_for_several() -> None:
    def dropped(expensive: set[int]) -> list[int]:
        governor = Governor(BUDGET, EVEN, expensive=expensive)
        governor.decide(0, 0, {})
        second = 1_000_000_000
        # 5,000 calls a second: 1 % of the CPU time through a cheap probe.
        return [
            decision.site_id
            for tick in range(1, 61)
            for decision in governor.decide(
                tick * second, tick * second, {7: (5000 * tick, 10_000_000 * tick)}
            )
        ]

    assert dropped(set()) == []
    assert dropped({7}) == [7]


def test_sites_that_are_to_go_last_go_last() -> None:
    rates = {1: Site(9_000, mean_ns=1_000), 2: Site(4_000, mean_ns=2_000_000)}
    program = Simulated(rates, Governor(BUDGET, EVEN, last={1}))
    program.run(80)
    # Without that it would be the first, which is large and short.
    assert list(program.dropped) == [2]
    alone = Simulated({1: Site(20_000)}, Governor(BUDGET, EVEN, last={1}))
    alone.run(80)
    assert list(alone.dropped) == [1]


def test_calls_far_apart_cost_more_than_those_of_a_burst() -> None:
    cost = ProbeCost(near_ns=2000, far_ns=7000, apart_ns=100_000)
    second_ns = 10**9
    assert cost.far(1000, second_ns) == 1000
    # One in each tenth of a millisecond finds nothing in the caches, whatever the others are.
    assert cost.far(30_000, second_ns) == 10_000
    assert cost.far(30_000, 0) == 0
    assert cost.of(1000, 1000) == 1000 * 7000
    # An expensive probe is more expensive once, not the more so for what it evicts.
    assert cost.of(10 * 1000, 1000) == 10_000 * 2000 + 1000 * 5000


@pytest.mark.parametrize(("short", "long"), [(16_000, 4_000), (8_000, 12_000)])
def test_rollouts_between_long_updates_are_within_the_budget(short: float, long: float) -> None:
    # A second of calls, four without: each second of them costs 9 %, all of them 1.8.
    sites = {1: Site(rate=short, mean_ns=1_000), 2: Site(rate=long, mean_ns=50_000)}
    program = Simulated(sites, Governor(BUDGET))
    for _ in range(50):
        program.run(4)
        program.run(16, density=0)
    assert program.dropped == {}


def test_a_burst_drops_no_more_than_it_costs() -> None:
    # In one window of six: 2.0 % in the long run, 1.5 without the first site.
    rates = {1: Site(16_000, mean_ns=1_000), 2: Site(12_000, mean_ns=2_000), 3: Site(8_000)}
    program = Simulated(rates, Governor(BUDGET))
    for _ in range(300):
        program.run(1)
        program.run(5, density=0)
    assert [*program.dropped] == [1]


def test_a_site_whose_calls_are_far_apart_goes_by_what_they_cost_there() -> None:
    # 1 % if they were near one another, 3.5 % as they are.
    program = Simulated({1: Site(rate=5_000, mean_ns=100_000)}, Governor(BUDGET))
    program.run(40)
    assert "would cost 3.5 % of the CPU time (budget 2 %)" in sentence(program.dropped[1])
    within = Simulated({1: Site(rate=2_800, mean_ns=200_000)}, Governor(BUDGET))
    within.run(400)
    assert within.dropped == {}
