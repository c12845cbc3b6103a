"""Bursts of small messages between the recorders of two machines, for one clock of both.

They go over a TCP socket of their own, as calls between actors take too long and vary too much.
What the times mean is `rlscope_analysis.fleet.clock`'s. All times are ns; those of messages are on
CLOCK_MONOTONIC_RAW, which nothing slews.
"""

from __future__ import annotations

import hmac
import math
import socket
import struct
import threading
import time
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from rlscope_analysis.fleet.clock import Exchange, Knot, knot_of
from rlscope_trace.fleet.connections import serve_each

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN_BYTES = 16
BURST = 40
_QUESTION = struct.Struct("<q")
_ANSWER = struct.Struct("<qq")
# A machine that does not answer for so long has gone.
_PATIENCE_S = 2.0
# A cluster has fewer nodes; a stranger that connects cannot take more threads.
_MOST_CLIENTS = 4096
_PAIR_TRIES = 5
# By which the pairs that are left out may lie off the line between those that are kept.
_PAIR_ERROR_NS = 200
_MOST_PAIRS = 1 << 20


def raw_ns() -> int:
    """Return the time on CLOCK_MONOTONIC_RAW."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


class Pair(NamedTuple):
    """Both clocks of a machine, read at once."""

    monotonic_ns: int
    raw_ns: int
    apart_ns: int
    """How far apart they were read at most."""


def read_pair() -> Pair:
    """Read both clocks: of some tries the one with the least time between."""
    tries = []
    for _ in range(_PAIR_TRIES):
        before_ns, now_ns, after_ns = time.monotonic_ns(), raw_ns(), time.monotonic_ns()
        tries.append(Pair((before_ns + after_ns) // 2, now_ns, (after_ns - before_ns + 1) // 2))
    return min(tries, key=lambda pair: pair.apart_ns)


class ClockPairs:
    """Pairs of both clocks; those on a line between others are left out."""

    def __init__(self, read: Callable[[], Pair] = read_pair) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._kept: list[Pair] = []
        self._last: Pair | None = None
        """The newest one, where it has not been kept."""
        self._slopes = _Slopes()
        self._worst_ns = 0

    def add(self) -> None:
        """Read a pair."""
        pair = self._read()
        with self._lock:
            self._worst_ns = max(self._worst_ns, pair.apart_ns)
            if not self._kept:
                self._kept.append(pair)
                return
            if self._last is not None and not self._slopes.allow(self._kept[-1], pair):
                self._keep(self._last)
                self._slopes = _Slopes()
            self._slopes.narrow(self._kept[-1], pair)
            self._last = pair

    def _keep(self, pair: Pair) -> None:
        if len(self._kept) < _MOST_PAIRS:
            self._kept.append(pair)

    def found(self) -> tuple[list[tuple[int, int]], int]:
        """Return the pairs so far, and by how much any instant between them is off at most."""
        with self._lock:
            kept = self._kept if self._last is None else [*self._kept, self._last]
            pairs = [(pair.monotonic_ns, pair.raw_ns) for pair in kept]
            return pairs, self._worst_ns + _PAIR_ERROR_NS


class _Slopes:
    """The slopes of all lines from one pair that pass each pair after it closely enough."""

    def __init__(self) -> None:
        self._least: Fraction | float = -math.inf
        self._most: Fraction | float = math.inf

    def allow(self, first: Pair, pair: Pair) -> bool:
        """Tell whether the line from the first to this pair is one of them."""
        return self._least <= _slope(first, pair, 0) <= self._most

    def narrow(self, first: Pair, pair: Pair) -> None:
        """Leave only those that pass this pair, too."""
        self._least = max(self._least, _slope(first, pair, -_PAIR_ERROR_NS))
        self._most = min(self._most, _slope(first, pair, _PAIR_ERROR_NS))


def _slope(first: Pair, pair: Pair, beside_ns: int) -> Fraction:
    """Return that of the line from one pair to so far beside another; exact, unlike a float."""
    rise_ns = pair.raw_ns - first.raw_ns + beside_ns
    return Fraction(rise_ns, pair.monotonic_ns - first.monotonic_ns)


class ClockServer:
    """Answers what time it is, to those who know the token."""

    def __init__(self, host: str, token: bytes, clock_ns: Callable[[], int] = raw_ns) -> None:
        """host: the address of this machine that the others reach."""
        self._token = token
        self._clock_ns = clock_ns
        self._socket = socket.create_server((host, 0), family=_family_of(host), backlog=256)
        self.address: tuple[str, int] = (host, self._socket.getsockname()[1])
        threading.Thread(target=self._accept, name="rls-clock", daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more who has not asked before."""
        self._socket.close()

    def _accept(self) -> None:
        serve_each(self._socket, _MOST_CLIENTS, self._serve)

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(_PATIENCE_S)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hmac.compare_digest(_receive(client, TOKEN_BYTES), self._token):
            self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        # Between bursts there is nothing to answer.
        client.settimeout(None)
        while len(_receive(client, _QUESTION.size)) == _QUESTION.size:
            received_ns = self._clock_ns()
            client.sendall(_ANSWER.pack(received_ns, self._clock_ns()))


def ask(link: socket.socket, count: int, clock_ns: Callable[[], int] = raw_ns) -> list[Exchange]:
    """Ask for the time, so many times at once. Raises OSError where nobody answers."""
    burst = []
    for _ in range(count):
        sent_ns = clock_ns()
        link.sendall(_QUESTION.pack(sent_ns))
        answer = _receive(link, _ANSWER.size)
        returned_ns = clock_ns()
        if len(answer) < _ANSWER.size:
            raise ConnectionResetError("the other machine has hung up")
        received_ns, answered_ns = _ANSWER.unpack(answer)
        burst.append(Exchange(sent_ns, received_ns, answered_ns, returned_ns))
    return burst


def connect(address: tuple[str, int], token: bytes) -> socket.socket:
    """Connect to a ClockServer. Raises OSError."""
    link = socket.create_connection(address, timeout=_PATIENCE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.sendall(token)
    return link


class ClockAsker:
    """Asks another machine for the time, now and then, and keeps what follows: knots."""

    def __init__(self, address: tuple[str, int], token: bytes, interval_s: float) -> None:
        self._address, self._token, self._interval_s = address, token, interval_s
        self._knots: list[Knot] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rls-clock", daemon=True)
        self._thread.start()

    def knots(self) -> list[Knot]:
        """Return what is known so far, in the order of time."""
        with self._lock:
            return list(self._knots)

    def stop(self) -> list[Knot]:
        """Ask a last time and return all knots."""
        self._stop.set()
        self._thread.join(timeout=2 * _PATIENCE_S)
        return self.knots()

    def _run(self) -> None:
        link: socket.socket | None = None
        is_last = False
        while True:
            try:
                if link is None:
                    link = connect(self._address, self._token)
                knot = knot_of(ask(link, BURST))
                if knot is not None:
                    with self._lock:
                        self._knots.append(knot)
            except OSError:
                # It may come back: what is known until then grows less certain, and says so.
                if link is not None:
                    link.close()
                link = None
            if is_last:
                break
            is_last = self._stop.wait(self._interval_s)
        if link is not None:
            link.close()


def _receive(link: socket.socket, count: int) -> bytes:
    """Return so many bytes, fewer where the other side has hung up."""
    found = b""
    while len(found) < count and (part := link.recv(count - len(found))):
        found += part
    return found


def _family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
