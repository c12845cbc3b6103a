"""Clocks of two machines over a real socket: one of them is shifted, and runs faster."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from itertools import count

import pytest

from native_recording import until
from rlscope_analysis.fleet.clock import fit_knots, fit_pairs, knot_of
from rlscope_trace.fleet import clock_link
from rlscope_trace.fleet.clock_link import (
    TOKEN_BYTES,
    ClockAsker,
    ClockPairs,
    ClockServer,
    Pair,
    ask,
    connect,
    raw_ns,
    read_pair,
)

TOKEN = bytes(range(TOKEN_BYTES))
SHIFT_NS = 5_000_000_000_000
PPM = 30


def other_clock_ns(now_ns: int | None = None) -> int:
    now_ns = raw_ns() if now_ns is None else now_ns
    return now_ns + SHIFT_NS + now_ns * PPM // 1_000_000


def test_the_bound_holds_the_true_offset() -> None:
    server = ClockServer("127.0.0.1", TOKEN, other_clock_ns)
    with connect(server.address, TOKEN) as link:
        knots = [knot_of(ask(link, 40)) for _ in range(5)]
    server.close()
    sound = [knot for knot in knots if knot is not None]
    assert len(sound) == 5
    for knot in sound:
        true_ns = other_clock_ns(knot.at_ns) - knot.at_ns
        assert abs(knot.offset_ns - true_ns) <= knot.bound_ns
    # Between the bursts, too.
    at_ns = (sound[1].at_ns + sound[2].at_ns) // 2
    instant = fit_knots(sound).at(at_ns)
    assert abs(instant.at_ns - other_clock_ns(at_ns)) <= instant.bound_ns


def test_an_asker_has_a_last_burst_when_it_stops() -> None:
    server = ClockServer("127.0.0.1", TOKEN, other_clock_ns)
    asker = ClockAsker(server.address, TOKEN, interval_s=3600)
    knots = asker.stop()
    server.close()
    assert len(knots) == 2
    assert knots[0].at_ns < knots[1].at_ns


def test_nobody_is_answered_without_the_token() -> None:
    server = ClockServer("127.0.0.1", TOKEN)
    with connect(server.address, bytes(TOKEN_BYTES)) as link, pytest.raises(ConnectionError):
        ask(link, 1)
    server.close()


def test_a_client_that_fails_leaves_its_place_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_link, "_MOST_CLIENTS", 1)
    has_failed = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: has_failed.set())
    failures = iter([ValueError("no clock")])

    def clock_ns() -> int:
        for failure in failures:
            raise failure
        return raw_ns()

    server = ClockServer("127.0.0.1", TOKEN, clock_ns)
    with connect(server.address, TOKEN) as link, pytest.raises(ConnectionError):
        ask(link, 1)
    assert has_failed.wait(10)

    def is_answered() -> bool:
        with suppress(OSError), connect(server.address, TOKEN) as link:
            return len(ask(link, 1)) == 1
        return False

    until(is_answered, what="another client is answered")
    server.close()


def test_an_asker_outlives_a_machine_that_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = nobody.getsockname()
    assert ClockAsker(address, TOKEN, interval_s=0.01).stop() == []


def test_pairs_are_of_one_instant() -> None:
    pair = read_pair()
    assert 0 <= pair.apart_ns < 1_000_000
    assert pair.raw_ns > 0


def test_pairs_that_lie_on_a_line_are_left_out_and_the_bound_says_how_much_that_costs() -> None:
    """A clock that is slewed for a while, as NTP does: 500 ppm for a minute."""
    times_ns = [number * 100_000_000 for number in range(2000)]

    def raw_of(ts_ns: int) -> int:
        slewed_ns = min(max(ts_ns - 60 * 10**9, 0), 60 * 10**9)
        return ts_ns - slewed_ns * 500 // 1_000_000

    numbers = count()
    pairs = ClockPairs(lambda: Pair(ts := times_ns[next(numbers)], raw_of(ts), 50))
    for _ in times_ns:
        pairs.add()
    found, bound_ns = pairs.found()
    assert len(found) < 30
    assert bound_ns == 250
    offsets = fit_pairs(found, bound_ns=bound_ns)
    for ts_ns in times_ns:
        instant = offsets.at(ts_ns)
        assert abs(instant.at_ns - raw_of(ts_ns)) <= instant.bound_ns


def test_of_pairs_on_one_line_only_the_ends_are_kept() -> None:
    """However many they are, and however they were read: within the error that is allowed."""
    numbers, chance = count(), random.Random(1)

    def read() -> Pair:
        ts_ns = next(numbers) * 100_000_000
        return Pair(ts_ns, ts_ns + ts_ns // 20_000 + chance.randint(-80, 80), 50)

    pairs = ClockPairs(read)
    for _ in range(5000):
        pairs.add()
    found, _ = pairs.found()
    assert [monotonic_ns for monotonic_ns, _ in found] == [0, 4999 * 100_000_000]


def test_each_pair_that_is_left_out_lies_near_the_line_between_those_that_are_kept() -> None:
    numbers, chance = count(), random.Random(2)
    read: list[Pair] = []

    def wandering() -> Pair:
        ts_ns = next(numbers) * 100_000_000
        before_ns = read[-1].raw_ns - read[-1].monotonic_ns if read else 0
        read.append(Pair(ts_ns, ts_ns + before_ns + chance.randint(-150, 150), 0))
        return read[-1]

    pairs = ClockPairs(wandering)
    for _ in range(3000):
        pairs.add()
    found, bound_ns = pairs.found()
    assert 100 < len(found) < 2000
    offsets = fit_pairs(found, bound_ns=bound_ns)
    for pair in read:
        assert abs(offsets.at(pair.monotonic_ns).at_ns - pair.raw_ns) <= bound_ns
