"""Which probe sites are worth their cost: decides, and does nothing itself.

The probes have an account. CPU time of the traced programs pays in at the rate of the budget, every
call of a probed function draws its cost. Up to a limit the account saves, so that a burst of calls
is no reason to drop a site, however dense; a site that is within the budget in the long run stays.
When the account is empty, the sites go that cost most for the time they cover, until what remains
is within the budget. What is far over it empties the account in the first quarter of a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# CPU time whose budget the account can save.
_SAVED_CPU_NS = 3_000_000_000
# A site below this part of the budget goes only where dropping the larger ones is not enough.
_SMALL_PART = 0.05
# A single step costs two more traps at entry and at return: 20 us a call where a trap leaves the
# virtual machine, as `calibrate` measures it.
_DEAR_WEIGHT = 10


@dataclass(frozen=True, slots=True)
class Decision:
    """One site that is to be dropped, and why, in words for users."""

    site_id: int
    reason: str
    hits: int
    """Calls since the account was last full."""
    mean_ns: int
    cost_share: float
    """What probing these calls cost, as a part of the CPU time."""


@dataclass(slots=True)
class _Calls:
    """Calls of one site: as last counted, and since the account was last full."""

    since_ns: int
    """When the window began in which the first of them was counted."""
    weight: int = 1
    """How many calls of a cheap probe one of it costs."""
    counted_hits: int = 0
    counted_ns: int = 0
    hits: int = 0
    time_ns: int = 0

    def count(self, hits: int, time_ns: int) -> int:
        """Take over the counters of the site; return the new calls, as if they were cheap."""
        new = max(0, hits - self.counted_hits)
        self.hits += new
        self.time_ns += max(0, time_ns - self.counted_ns)
        self.counted_hits, self.counted_ns = hits, time_ns
        return self.weight * new

    @property
    def load(self) -> int:
        """Calls, as if each had a cheap probe."""
        return self.weight * self.hits

    @property
    def mean_ns(self) -> float:
        return self.time_ns / self.hits if self.hits else 0.0


@dataclass
class Governor:
    """Keeps the cost of the probes below `budget`, a part of the CPU time of the traced programs.

    `cost_ns`: what probing one call costs the program, entry and return.
    """

    budget: float = 0.02
    cost_ns: int = 2000
    dear: set[int] = field(default_factory=set)
    """Sites at an instruction that the OS kernel has to single-step."""
    last: set[int] = field(default_factory=set)
    """Sites that go only where dropping the others is not enough."""
    _sites: dict[int, _Calls] = field(default_factory=dict, init=False)
    _dropped: set[int] = field(default_factory=set, init=False)
    _is_started: bool = field(default=False, init=False)
    _looked_ns: int = field(default=0, init=False)
    _cpu_ns: int = field(default=0, init=False)
    _period_cpu_ns: int = field(default=0, init=False)
    """CPU time since the account was last full."""
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
        new_cost_ns = self.cost_ns * self._count(now_ns, counters)
        self._balance_ns += self.budget * new_cpu_ns - new_cost_ns
        if self._balance_ns >= self._limit_ns:
            self._begin_period()
        if self._balance_ns >= 0:
            return []
        chosen = self._choose()
        decisions = [self._decision(now_ns, site_id) for site_id in chosen]
        for site_id in chosen:
            del self._sites[site_id]
            self._dropped.add(site_id)
        self._begin_period()
        return decisions

    @property
    def _limit_ns(self) -> float:
        return self.budget * _SAVED_CPU_NS

    def _count(self, now_ns: int, counters: Mapping[int, tuple[int, int]]) -> int:
        """Take over the counters; return how many calls are new."""
        new_hits = sum(
            self._calls_of(site_id).count(hits, time_ns)
            for site_id, (hits, time_ns) in counters.items()
            if site_id not in self._dropped
        )
        self._looked_ns = now_ns
        return new_hits

    def _calls_of(self, site_id: int) -> _Calls:
        if site_id not in self._sites:
            weight = _DEAR_WEIGHT if site_id in self.dear else 1
            self._sites[site_id] = _Calls(self._looked_ns, weight)
        return self._sites[site_id]

    def _begin_period(self) -> None:
        self._balance_ns = self._limit_ns
        self._period_cpu_ns = 0
        for calls in self._sites.values():
            calls.hits = calls.time_ns = 0

    @property
    def _period_load(self) -> int:
        return sum(calls.load for calls in self._sites.values())

    @property
    def _period_ns(self) -> int:
        """CPU time of this period: at least its cost, as it may be read before the counters."""
        return max(self._period_cpu_ns, self.cost_ns * self._period_load, 1)

    def _choose(self) -> list[int]:
        """Return the sites to drop, so that the rest is within the budget."""
        affordable = self.budget * self._period_ns / self.cost_ns
        small = _SMALL_PART * affordable
        left = self._period_load
        # Large ones first; of them the one that costs most for the time it covers. Those that are
        # to go last go after all others.
        order = sorted(
            (site_id for site_id, calls in self._sites.items() if calls.hits),
            key=lambda site_id: (
                site_id in self.last,
                self._sites[site_id].load <= small,
                self._sites[site_id].mean_ns / self._sites[site_id].weight,
                site_id,
            ),
        )
        chosen: list[int] = []
        for site_id in order:
            if left <= affordable:
                break
            left -= self._sites[site_id].load
            chosen.append(site_id)
        return self._without_needless(chosen, affordable - left)

    def _without_needless(self, chosen: list[int], room: float) -> list[int]:
        """Keep those of the chosen that still fit once larger ones have made room."""
        needed = []
        for site_id in reversed(chosen):
            load = self._sites[site_id].load
            if load <= room:
                room -= load
            else:
                needed.append(site_id)
        return needed[::-1]

    def _decision(self, now_ns: int, site_id: int) -> Decision:
        calls = self._sites[site_id]
        share = self.cost_ns * calls.load / self._period_ns
        total = self.cost_ns * self._period_load / self._period_ns
        others = "" if share > self.budget else f", all probes {_percent(total)}"
        reason = (
            f"dropped after {(now_ns - calls.since_ns) / 1e9:.1f} s: {calls.hits:,} calls of"
            f" {_duration(calls.mean_ns)} would cost {_percent(share)} of the CPU time{others}"
            f" (budget {_percent(self.budget)})"
        )
        return Decision(site_id, reason, calls.hits, round(calls.mean_ns), share)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _duration(mean_ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if mean_ns >= size:
            return f"{mean_ns / size:.1f} {unit}"
    return f"{mean_ns:.0f} ns"
