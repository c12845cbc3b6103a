"""Which probe sites are worth their cost: decides, and does nothing itself.

The probes have an allowance. CPU time of the traced programs fills it at the rate of the budget,
every call of a probed function takes its cost from it. Up to a limit it saves, so a burst of calls
is no reason to drop a site, however dense; a site that is within the budget in the long run stays.
When the allowance is empty, the sites go that cost most for the time they cover, until what remains
is within the budget. What is far over it empties the allowance in the first quarter of a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# CPU time whose budget the allowance can save: a rollout of a second that calls at five times the
# budget, between updates that call nothing.
_SAVED_CPU_NS = 5_000_000_000
# A site below this part of the budget goes only where dropping the larger ones is not enough.
_SMALL_PART = 0.05
# A single step costs two more traps at entry and at return: 20 us a call where a trap leaves the
# virtual machine, as `calibrate` measures it.
_EXPENSIVE_WEIGHT = 10


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """What probing a call costs the program, entry and return; see docs/overhead.md."""

    near_ns: int = 2000
    """Soon after another one: the caches hold what it needs."""
    far_ns: int = 7000
    """After work that has taken the caches: what it evicts is fetched again, too."""
    apart_ns: int = 100_000
    """CPU time that takes."""

    def of(self, load: float, far: float) -> float:
        """Return the cost in ns of calls: as if each had a cheap probe, and how many were far."""
        return self.near_ns * load + (self.far_ns - self.near_ns) * far

    def far(self, hits: int, cpu_ns: int) -> float:
        """Return how many of so many calls within some CPU time were far, if evenly spread."""
        return min(hits, cpu_ns / self.apart_ns)


@dataclass(frozen=True, slots=True)
class Decision:
    """One site that is to be dropped, and why."""

    site_id: int
    code: str
    """Of rlscope_analysis.schema.facts.sites, with its numbers."""
    numbers: tuple[float, ...]
    hits: int
    """Calls since the allowance was last full."""
    mean_ns: int


@dataclass(slots=True)
class _Calls:
    """Calls of one site: as last counted, and since the allowance was last full."""

    since_ns: int
    """When the window began in which the first of them was counted."""
    weight: int = 1
    """How many calls of a cheap probe one of it costs."""
    counted_hits: int = 0
    counted_ns: int = 0
    hits: int = 0
    far: float = 0.0
    """How many of the hits were far from the call before them."""
    time_ns: int = 0

    def count(self, hits: int, time_ns: int) -> int:
        """Take over the counters of the site; return how many calls are new."""
        new = max(0, hits - self.counted_hits)
        self.hits += new
        self.time_ns += max(0, time_ns - self.counted_ns)
        self.counted_hits, self.counted_ns = hits, time_ns
        return new

    @property
    def load(self) -> int:
        """Calls, as if each had a cheap probe."""
        return self.weight * self.hits

    @property
    def mean_ns(self) -> float:
        return self.time_ns / self.hits if self.hits else 0.0


# A site, and how many of its calls are new.
_New = tuple[_Calls, int]


@dataclass
class Governor:
    """Keeps the cost of the probes below `budget`, a part of the traced programs' CPU time."""

    budget: float = 0.02
    cost: ProbeCost = ProbeCost()
    expensive: set[int] = field(default_factory=set)
    """Sites at an instruction that the OS kernel has to single-step."""
    last: set[int] = field(default_factory=set)
    """Sites that go only where dropping the others is not enough."""
    _sites: dict[int, _Calls] = field(default_factory=dict, init=False)
    _dropped: set[int] = field(default_factory=set, init=False)
    _is_started: bool = field(default=False, init=False)
    _looked_ns: int = field(default=0, init=False)
    _cpu_ns: int = field(default=0, init=False)
    _period_cpu_ns: int = field(default=0, init=False)
    """CPU time since the allowance was last full."""
    _balance_ns: float = field(default=0.0, init=False)

    def decide(
        self, now_ns: int, cpu_ns: int, counters: Mapping[int, tuple[int, int]]
    ) -> list[Decision]:
        """Return the sites to drop now; none of them comes up again.

        To be called when the probes are attached and then about every 250 ms. `cpu_ns`: CPU time of
        the traced programs since any fixed instant. `counters`: calls and their time in ns of each
        site since it was attached.
        """
        if not self._is_started:
            # What is spent up to here was spent in an unknown time.
            self._is_started, self._looked_ns, self._cpu_ns = True, now_ns, cpu_ns
            self._count(now_ns, counters)
            self._begin_period()
            return []
        new_cpu_ns = max(0, cpu_ns - self._cpu_ns)
        self._cpu_ns = max(cpu_ns, self._cpu_ns)
        self._period_cpu_ns += new_cpu_ns
        new = self._count(now_ns, counters)
        self._balance_ns += self.budget * new_cpu_ns - self._book(new, new_cpu_ns)
        if self._balance_ns >= self._limit_ns:
            self._begin_period()
        if self._balance_ns >= 0:
            return []
        costs_ns = self._costs()
        chosen = self._choose(costs_ns)
        # Reported once for all: there can be thousands of them.
        period_ns, total_ns = self._period_ns, sum(costs_ns.values())
        decisions = [
            self._decision(now_ns, site_id, costs_ns[site_id] / period_ns, total_ns / period_ns)
            for site_id in chosen
        ]
        for site_id in chosen:
            del self._sites[site_id]
            self._dropped.add(site_id)
        self._begin_period()
        return decisions

    @property
    def _limit_ns(self) -> float:
        return self.budget * _SAVED_CPU_NS

    def _count(self, now_ns: int, counters: Mapping[int, tuple[int, int]]) -> list[_New]:
        """Take over the counters; return the sites that were called, and how often."""
        new = [
            (calls, hits)
            for site_id, counted in counters.items()
            if site_id not in self._dropped
            and (hits := (calls := self._calls_of(site_id)).count(*counted))
        ]
        self._looked_ns = now_ns
        return new

    def _book(self, new: list[_New], cpu_ns: int) -> float:
        """Book calls within some CPU time, of which each site has its part; return their cost."""
        hits = sum(count for _, count in new)
        far = self.cost.far(hits, cpu_ns)
        for calls, count in new:
            calls.far += far * count / hits
        return self.cost.of(sum(calls.weight * count for calls, count in new), far)

    def _calls_of(self, site_id: int) -> _Calls:
        if site_id not in self._sites:
            weight = _EXPENSIVE_WEIGHT if site_id in self.expensive else 1
            self._sites[site_id] = _Calls(self._looked_ns, weight)
        return self._sites[site_id]

    def _begin_period(self) -> None:
        self._balance_ns = self._limit_ns
        self._period_cpu_ns = 0
        for calls in self._sites.values():
            calls.hits = calls.time_ns = 0
            calls.far = 0.0

    @property
    def _period_ns(self) -> int:
        """CPU time of this period: at least its cost, as it may be read before the counters."""
        load = sum(calls.load for calls in self._sites.values())
        return max(self._period_cpu_ns, self.cost.near_ns * load, 1)

    def _costs(self) -> dict[int, float]:
        """Return what each site that was called has cost in this period, in ns."""
        return {
            site_id: self.cost.of(calls.load, calls.far)
            for site_id, calls in self._sites.items()
            if calls.hits
        }

    def _choose(self, costs_ns: Mapping[int, float]) -> list[int]:
        """Return the sites to drop, so that the rest is within the budget."""
        affordable_ns = self.budget * self._period_ns
        left_ns = sum(costs_ns.values())
        # Large ones first; of them the one that costs most for the time it covers. Those that are
        # to go last go after all others.
        order = sorted(
            costs_ns,
            key=lambda site_id: (
                site_id in self.last,
                costs_ns[site_id] <= _SMALL_PART * affordable_ns,
                self._sites[site_id].mean_ns / self._sites[site_id].weight,
                site_id,
            ),
        )
        chosen: list[int] = []
        for site_id in order:
            if left_ns <= affordable_ns:
                break
            left_ns -= costs_ns[site_id]
            chosen.append(site_id)
        # Those stay that still fit once larger ones have made room.
        needed = []
        for site_id in reversed(chosen):
            if left_ns + costs_ns[site_id] <= affordable_ns:
                left_ns += costs_ns[site_id]
            else:
                needed.append(site_id)
        return needed[::-1]

    def _decision(self, now_ns: int, site_id: int, share: float, total: float) -> Decision:
        calls = self._sites[site_id]
        code = "too_expensive" if share > self.budget else "too_expensive_together"
        after_s = (now_ns - calls.since_ns) / 1e9
        numbers = (after_s, calls.hits, calls.mean_ns, share, total, self.budget)
        return Decision(site_id, code, numbers, calls.hits, round(calls.mean_ns))
