"""One clock for several machines, with the most by which it can be off.

Machines exchange bursts of small messages. The fastest message of a burst and its fastest answer
limit the offset from both sides, whatever the two ways took. Between bursts the offset is
a line: exact but for how far the rate may have changed. That is little on CLOCK_MONOTONIC_RAW,
which nothing slews; records are on CLOCK_MONOTONIC, so each machine keeps pairs of both.

All times are ns; a rate is a part of 1.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WANDER = 10e-6
"""Oscillators keep their mean rate to so much while a recording lasts: what heat does to them."""
SLEW = 500e-6
"""So much NTP makes CLOCK_MONOTONIC run faster or slower at most."""
DRIFT = 250e-6
"""So much two oscillators differ at most, of machines that are on sale."""
UNSTEADY = 1000e-6
"""Taken for the rate where a clock does not keep to these: a machine that was moved or asleep."""
_MOST_NS = 1 << 62


class Exchange(NamedTuple):
    """A message and its answer: two instants on the clock of who asked, two of who answered."""

    sent_ns: int
    received_ns: int
    answered_ns: int
    returned_ns: int

    @property
    def under_way_ns(self) -> int:
        """How long message and answer took together."""
        return (self.returned_ns - self.sent_ns) - (self.answered_ns - self.received_ns)


class Knot(NamedTuple):
    """At an instant of one clock, what to add for the other, and how far that is off at most."""

    at_ns: int
    offset_ns: int
    bound_ns: int


def knot_of(burst: Sequence[Exchange]) -> Knot | None:
    """Return what a burst tells of the clock that answered; None: nothing in it can be true.

    Each message says that the offset is not above a value, each answer that it is not below one:
    the fastest of either, which need not be of one exchange.
    """
    possible = [one for one in burst if one.under_way_ns >= 0]
    if not possible:
        return None
    best = min(possible, key=lambda one: one.under_way_ns)
    at_ns = (best.sent_ns + best.returned_ns) // 2

    def limits(exchanges: Sequence[Exchange]) -> tuple[float, float]:
        # The clocks may part from each instant to the one that is asked for.
        below = max(
            one.answered_ns - one.returned_ns - DRIFT * abs(one.returned_ns - at_ns)
            for one in exchanges
        )
        above = min(
            one.received_ns - one.sent_ns + DRIFT * abs(one.sent_ns - at_ns) for one in exchanges
        )
        return below, above

    below, above = limits(possible)
    if below > above:
        # Somebody set a clock meanwhile.
        below, above = limits([best])
    # Halves are rounded, and so are fractions of large numbers.
    return Knot(at_ns, round((below + above) / 2), ceil((above - below) / 2) + 2)


class Instant(NamedTuple):
    """An instant on another clock; the true one is at most bound_ns away."""

    at_ns: int
    bound_ns: int

    def is_before(self, other: Instant) -> bool:
        """Tell whether it certainly was before another one on the same clock."""
        return self.at_ns + self.bound_ns < other.at_ns - other.bound_ns


@dataclass(frozen=True, slots=True)
class Offsets:
    """What to add to one clock for another, at any instant."""

    knots: tuple[Knot, ...]
    """In the order of time."""
    low_rate: float
    high_rate: float
    """Between which the rate of the offset stays, where the knots allow that."""

    def at(self, ts_ns: int) -> Instant:
        """Return the instant on the other clock."""
        at = bisect.bisect_right(self.knots, (ts_ns, _MOST_NS, 0))
        if at in (0, len(self.knots)):
            return self._outside(ts_ns, self.knots[max(at - 1, 0)])
        return self._between(ts_ns, self.knots[at - 1], self.knots[at])

    def _outside(self, ts_ns: int, knot: Knot) -> Instant:
        away_ns = ts_ns - knot.at_ns
        middle, half = (self.low_rate + self.high_rate) / 2, (self.high_rate - self.low_rate) / 2
        off_ns = ceil(knot.bound_ns + half * abs(away_ns)) + 1
        return Instant(ts_ns + knot.offset_ns + round(middle * away_ns), off_ns)

    def _between(self, ts_ns: int, left: Knot, right: Knot) -> Instant:
        span_ns, into_ns = right.at_ns - left.at_ns, ts_ns - left.at_ns
        rest_ns = span_ns - into_ns
        rise_ns, error_ns = right.offset_ns - left.offset_ns, left.bound_ns + right.bound_ns
        low, high = self.low_rate, self.high_rate
        if not low * span_ns - error_ns <= rise_ns <= high * span_ns + error_ns:
            # It leaped, at any instant between.
            bound_ns = abs(rise_ns) + error_ns + ceil(UNSTEADY * span_ns)
            return Instant(ts_ns + left.offset_ns + rise_ns * into_ns // span_ns, bound_ns)
        # The rate may have been highest first and lowest then, or the other way round; the rate on
        # the whole is known to the errors of both knots only.
        rate, error = rise_ns / span_ns, error_ns / span_ns
        up, down = max(high - rate + error, 0), max(rate - low + error, 0)
        bent_ns = max(min(up * into_ns, down * rest_ns), min(down * into_ns, up * rest_ns))
        kept_ns = (left.bound_ns * rest_ns + right.bound_ns * into_ns) / span_ns
        offset_ns = left.offset_ns + round(rate * into_ns)
        return Instant(ts_ns + offset_ns, ceil(kept_ns + bent_ns) + 1)


def fit_knots(knots: Sequence[Knot]) -> Offsets:
    """Fit the offset between two clocks that nothing slews. Raises ValueError without a knot."""
    ordered = _in_order(knots)
    if len(ordered) == 1:
        return Offsets(ordered, -UNSTEADY, UNSTEADY)
    # Where both of them are good, the rate is best known from those that are far apart.
    good = sorted(ordered, key=lambda knot: knot.bound_ns)[: max(2, len(ordered) // 2)]
    first, last = min(good), max(good)
    span_ns = last.at_ns - first.at_ns
    rate = (last.offset_ns - first.offset_ns) / span_ns
    off = WANDER + (first.bound_ns + last.bound_ns) / span_ns
    return Offsets(_narrowed(ordered, rate - off, rate + off), rate - off, rate + off)


def _narrowed(knots: tuple[Knot, ...], low: float, high: float) -> tuple[Knot, ...]:
    """Limit each knot by those before and after it, at rates between low and high."""
    limits = [(knot.offset_ns - knot.bound_ns, knot.offset_ns + knot.bound_ns) for knot in knots]
    count = len(knots)
    for order in (range(1, count), range(count - 2, -1, -1)):
        for at in order:
            known = at - order.step
            span_ns = knots[at].at_ns - knots[known].at_ns
            rises = sorted((low * span_ns, high * span_ns))
            below = max(limits[at][0], limits[known][0] + floor(rises[0]))
            above = min(limits[at][1], limits[known][1] + ceil(rises[1]))
            if below <= above:
                limits[at] = (below, above)
            # Else it leaped: nothing follows from the other.
    return tuple(
        Knot(knot.at_ns, (below + above) // 2, (above - below + 1) // 2)
        for knot, (below, above) in zip(knots, limits, strict=True)
    )


def fit_pairs(pairs: Sequence[tuple[int, int]], *, bound_ns: int = 0) -> Offsets:
    """Return what to add to the first clock of pairs for the second; one of them is slewed.

    bound_ns: how far apart the two of a pair were read. Raises ValueError without a pair.
    """
    knots = _in_order([Knot(at_ns, other_ns - at_ns, bound_ns) for at_ns, other_ns in pairs])
    return Offsets(knots, -SLEW, SLEW)


def _in_order(knots: Sequence[Knot]) -> tuple[Knot, ...]:
    """Return one knot for each instant, in order."""
    best: dict[int, Knot] = {}
    for knot in sorted(knots, key=lambda knot: (knot.at_ns, knot.bound_ns)):
        best.setdefault(knot.at_ns, knot)
    if not best:
        raise ValueError("nothing is known of the clock")
    return tuple(best.values())


@dataclass(frozen=True, slots=True)
class NodeClock:
    """From CLOCK_MONOTONIC of one node to that of the reference."""

    steps: tuple[Offsets, ...]
    """One after the other; none: it is the reference."""

    def to_reference(self, ts_ns: int) -> Instant:
        """Return an instant of the node on the clock of the reference."""
        bound_ns = 0
        for offsets in self.steps:
            # The next one is read at an instant that is off already.
            ts_ns, more_ns = offsets.at(ts_ns)
            bound_ns += more_ns + ceil(bound_ns * UNSTEADY)
        return Instant(ts_ns, bound_ns)


def node_clock(
    pairs: Sequence[tuple[int, int]],
    knots: Sequence[Knot],
    reference_pairs: Sequence[tuple[int, int]],
    *,
    pair_bound_ns: int = 0,
) -> NodeClock:
    """Return the clock of a node that asked the reference for the time.

    pairs, reference_pairs: (CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW), of the node, of the reference;
    knots: between the raw clocks of both. Raises ValueError where one of them is empty.
    """
    back = [(raw_ns, ts_ns) for ts_ns, raw_ns in reference_pairs]
    return NodeClock(
        (
            fit_pairs(pairs, bound_ns=pair_bound_ns),
            fit_knots(knots),
            fit_pairs(back, bound_ns=pair_bound_ns),
        )
    )


def clock_of(found: dict[str, Any]) -> NodeClock:
    """Return the clock that a manifest has of a node. Raises ValueError, TypeError, KeyError."""
    if found.get("is_reference") is True:
        return NodeClock(())
    knots = [Knot(*_numbers(knot, 3)) for knot in found["knots"]]
    if any(knot.bound_ns < 0 for knot in knots):
        raise ValueError("a bound is below 0")
    return node_clock(
        _pairs(found["pairs"]),
        knots,
        _pairs(found["reference_pairs"]),
        pair_bound_ns=_numbers([found.get("pair_bound_ns", 0)], 1)[0],
    )


def _pairs(found: Sequence[Any]) -> list[tuple[int, int]]:
    return [(one, other) for one, other in (_numbers(pair, 2) for pair in found)]


def _numbers(found: Sequence[Any], count: int) -> tuple[int, ...]:
    if len(found) != count or any(type(one) is not int or abs(one) > _MOST_NS for one in found):
        raise ValueError(f"{count} whole numbers are expected")
    return tuple(found)
