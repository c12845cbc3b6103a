"""What is subtracted for each event: its cost in a loop, and what it takes more in the program.

A loop finds everything in the cache, a program does not: what the program in the OS kernel takes
in the recording is known. The rest of an event (a trap, an interrupt, the way of the hypervisor)
no account tells of, but it finds the same caches. Of calls a second loop, which crowds them, tells
by how much a call is dearer per nanosecond that its program takes longer. The rest of other events
is taken to be dearer by the same factor as the program. Both within an error. The checks: no two
ways of measuring may contradict each other.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rlscope_analysis.overhead.cost import Cost, Z
from rlscope_analysis.overhead.rate import WITH_RATES, Rate, rate_of, rates_of_calls
from rlscope_analysis.schema.facts.qualities import quality
from rlscope_analysis.schema.vocabulary import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlscope_analysis.schema.facts.qualities import Quality

# How far what no account tells of may differ from that: relative deviation. In training programs a
# sample, most of which is its interrupt, was 1.7 to 2.9 times as dear as in the loop, its program
# 1.4 to 2.3 times: docs/overhead.md.
_REST_ERROR = 0.25
_MOST_OF_REST = 3.0
# How far the rate of a training program may be from that of the loop: relative deviation.
_RATE_ERROR = 0.3
# The second loop tells nothing of programs that take longer by more than so many times what its own
# does.
_CROWDED_AT_MOST = 2.0
# In a program, its part in the OS kernel is seldom cheaper than in a loop: twice as dear as a rule,
# and five times where whatever else runs needs all of the cache.
_SANE = (0.67, 10.0)
# Without an account of the recording, the factor is 1, and most likely between these.
_UNKNOWN = (0.5, 2.5)
# Two ways contradict each other if one is as many times the other, whatever the intervals say.
_AGREEMENT = 1.5
# A loop measures the program and more.
_LEAST_OF_PROGRAM = 0.8
_PROGRAM_OF = {"call_dear": "call"}
_RUNS = {"call": 2, "call_dear": 2, "gil_release": 2}
# What tells the rates of calls, which scale other events too.
_OF_RATES = ("micro", "program", "crowded", "crowded_program")
# A kind of calls that is rarer changes no mean.
_LEAST_SHARE = 0.01
# Of another event, where its own loop could not be run: its Python package was not there.
_STAND_IN = {"range_python": "range"}
# Recorded inside the process: there is nothing that the OS kernel could account for.
_WITHOUT_PROGRAM = ("range", "range_python", "range_auto")


def combined(
    measured: Iterable[Cost],
    in_run: Iterable[Cost],
    toggled: Iterable[Cost],
    doubts: Mapping[str, Quality],
    dear_share: float,
) -> list[Cost]:
    """Return the rows that are subtracted, for each event and part that has a cost in a loop.

    measured: rows of all other methods. The others tell by event, both parts together. doubts: what
    else contradicts the cost of an event. dear_share: the part of the calls that are dear, which
    windows without probes do not tell from others.
    """
    rows = list(measured)
    programs = {row.event: row for row in rows if row.method == "program"}
    accounts = {row.event: row for row in in_run}
    checks = {row.event: row for row in toggled}
    rates = rates_of_calls(rows)
    found: dict[str, list[Cost]] = {}
    for event in EVENTS:
        parts = _parts(rows, event) or _stand_ins(rows, event)
        key = _PROGRAM_OF.get(event, event)
        program, account = programs.get(key), accounts.get(key)
        costs = [_scaled(part, program, account, rate_of(part, rates)) for part in parts]
        is_scaled = event not in _WITHOUT_PROGRAM and _lack(event, program, account) is None
        doubt = (
            doubts.get(event)
            or _doubted_before(rows, _ways(rows, event, rates if is_scaled else None))
            or _below_program(event, parts, program)
        )
        found[event] = _marked(costs, doubt)
    for event, check in checks.items():
        shares = {event: 1.0}
        if event == "call":
            both = {"call": 1 - dear_share, "call_dear": dear_share}
            shares = {kind: share for kind, share in both.items() if share >= _LEAST_SHARE}
        doubt = _contradiction(_mean_of(found, shares), check)
        found |= {kind: _marked(found[kind], doubt) for kind in shares}
    return [cost for costs in found.values() for cost in costs]


def _marked(costs: list[Cost], doubt: Quality | None) -> list[Cost]:
    return [replace(cost, quality=doubt) for cost in costs] if doubt else costs


def _mean_of(found: Mapping[str, list[Cost]], shares: Mapping[str, float]) -> list[Cost]:
    """Return the parts that the mean event has, if so many are of each kind; []: not known."""
    if not all(found[event] for event in shares):
        return []
    return [
        replace(
            cost,
            mean_ns=share * (cost.mean_ns or 0.0),
            low_ns=share * (cost.low_ns or 0.0),
            high_ns=share * (cost.high_ns or 0.0),
        )
        for event, share in shares.items()
        for cost in found[event]
    ]


def _parts(rows: list[Cost], event: str) -> list[Cost]:
    """Return what the loop of an event says of its parts."""
    return [
        row
        for row in rows
        if row.event == event and row.method == "micro" and row.part and row.mean_ns is not None
    ]


def _stand_ins(rows: list[Cost], event: str) -> list[Cost]:
    """Return the parts of the event that stands in for one that was not measured, if one does."""
    other = _STAND_IN.get(event, "")
    taken = quality("stand_in", subject=other)
    return [replace(row, event=event, quality=taken) for row in _parts(rows, other)]


def _scaled(part: Cost, program: Cost | None, account: Cost | None, rate: Rate | None) -> Cost:
    """Return the cost of a part with what it takes more; or as it is, with what is left open."""
    assert part.mean_ns is not None
    lacks = _lack(part.event, program, account)
    if lacks is None and program and account and program.mean_ns and account.mean_ns:
        if rate is not None:
            return _crowded(part, program, account, rate)
        # The programs take their stamps at once, or last of all: what they do is outside.
        runs = _RUNS.get(part.event, 1) if part.part == "outside" else 0
        rest_ns = part.mean_ns - runs * program.mean_ns
        factor = min(max(account.mean_ns / program.mean_ns, 1.0), _MOST_OF_REST)
        if rest_ns < 0:  # the noise of the loop, which nothing makes dearer
            factor = 1.0
        mean_ns = runs * account.mean_ns + factor * rest_ns
        stddev_ns = math.hypot(
            factor * part.stderr_ns,
            runs * account.stderr_ns,
            factor * runs * program.stderr_ns,
            _REST_ERROR * factor * rest_ns,
        )
        return _used(part, mean_ns, stddev_ns, account.n)
    ends = [factor * part.mean_ns for factor in _UNKNOWN]
    if lacks is not None and not part.quality.is_doubtful:
        part = replace(part, quality=lacks.of_a_cost())
    reach = Z * part.stderr_ns
    return replace(
        part, method="combined", low_ns=min(ends) - reach, high_ns=max(ends) + reach, used=True
    )


def _used(part: Cost, mean_ns: float, stddev_ns: float, n: int) -> Cost:
    return replace(
        part, method="combined", mean_ns=mean_ns, stddev_ns=stddev_ns, n=n,
        low_ns=mean_ns - Z * stddev_ns, high_ns=mean_ns + Z * stddev_ns, used=True,
    )  # fmt: skip


def _crowded(part: Cost, program: Cost, account: Cost, rate: Rate) -> Cost:
    """Return the cost of a part that becomes dearer at a known rate."""
    assert part.mean_ns is not None
    assert program.mean_ns is not None
    assert account.mean_ns is not None
    whole_ns = max(account.mean_ns - program.mean_ns, 0.0)
    longer_ns = min(whole_ns, _CROWDED_AT_MOST * rate.longer_ns)
    stddev_ns = math.hypot(
        # What is beyond may be as dear, or come for nothing.
        rate.value * (whole_ns - longer_ns),
        part.stderr_ns,
        rate.value * math.hypot(account.stderr_ns, program.stderr_ns),
        longer_ns * math.hypot(rate.stderr, _RATE_ERROR * rate.value),
    )
    return _used(part, part.mean_ns + rate.value * longer_ns, stddev_ns, account.n)


def _lack(event: str, program: Cost | None, account: Cost | None) -> Quality | None:
    """Return why that is not known, or not believed; None: it is, or there is nothing to know."""
    if event in _WITHOUT_PROGRAM:
        return None
    if account is None:
        return quality("no_account")
    if not account.mean_ns:
        return account.quality
    if program is None or not program.mean_ns:
        return quality("no_account_in_loop")
    factor = account.mean_ns / program.mean_ns
    if not _SANE[0] <= factor <= _SANE[1]:
        return quality("other_factor", account.mean_ns, program.mean_ns)
    return None


def _ways(rows: list[Cost], event: str, rates: dict[str, Rate] | None) -> set[tuple[str, str]]:
    """Return event and method of the rows that the cost of an event is made of.

    rates: of calls, if its account scales it; None: it is that of its loop alone.
    """
    loop = event if _parts(rows, event) else _STAND_IN.get(event, event)
    ways = {(loop, "micro")}
    if rates is not None:
        ways.add((_PROGRAM_OF.get(event, event), "program"))
    if rates and event in WITH_RATES:
        ways |= {("call", method) for method in _OF_RATES}
    return ways


def _doubted_before(rows: list[Cost], ways: set[tuple[str, str]]) -> Quality | None:
    """Return what contradicted one of these ways of measuring when it was checked, if any."""
    qualities = (row.quality for row in rows if (row.event, row.method) in ways)
    return next((quality for quality in qualities if quality.is_doubtful), None)


def _below_program(event: str, parts: list[Cost], program: Cost | None) -> Quality | None:
    """Return the contradiction of a loop that is cheaper than the program in it, if it is."""
    if not parts or not program or not program.mean_ns or event in _PROGRAM_OF:
        return None
    loop_ns = sum(part.mean_ns or 0.0 for part in parts)
    least_ns = _LEAST_OF_PROGRAM * _RUNS.get(event, 1) * program.mean_ns
    if loop_ns + sum(Z * part.stderr_ns for part in parts) >= least_ns:
        return None
    return quality("below_program", loop_ns)


def _contradiction(costs: list[Cost], check: Cost) -> Quality | None:
    low_ns, high_ns = check.low_ns, check.high_ns
    if not costs or check.mean_ns is None or low_ns is None or high_ns is None:
        return None
    mean_ns = sum(cost.mean_ns or 0.0 for cost in costs)
    is_apart = low_ns > sum(cost.high_ns or 0.0 for cost in costs) or high_ns < sum(
        cost.low_ns or 0.0 for cost in costs
    )
    is_other = low_ns > mean_ns * _AGREEMENT or high_ns < mean_ns / _AGREEMENT
    if not (is_apart or is_other):
        return None
    return quality("toggled_otherwise", mean_ns, check.mean_ns, low_ns, high_ns)
