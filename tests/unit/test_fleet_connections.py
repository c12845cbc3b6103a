"""A listening socket: so many connections at once, whatever becomes of each."""

from __future__ import annotations

import errno
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from rlscope_trace.fleet import connections
from rlscope_trace.fleet.connections import serve_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Pairs = list[tuple[socket.socket, socket.socket]]

MOST = 2


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    """Give our ends, and those that a listener gives out."""
    made = [socket.socketpair() for _ in range(MOST + 1)]
    yield made
    for pair in made:
        for end in pair:
            end.close()


class Listener:
    """Gives out connections, and errors, and is closed then."""

    def __init__(self, *given: socket.socket | int) -> None:
        self.given = list(given)

    def accept(self) -> tuple[socket.socket, str]:
        one = self.given.pop(0) if self.given else errno.EBADF
        if isinstance(one, int):
            raise OSError(one, "")
        return one, ""


def serve(serving: Callable[[socket.socket], None], *given: socket.socket | int) -> None:
    serve_each(Listener(*given), MOST, serving)  # type: ignore[arg-type]


def test_one_more_than_so_many_is_closed_and_a_place_is_free_again(pairs: Pairs) -> None:
    release, begun = threading.Event(), threading.Semaphore(0)

    def hold(connection: socket.socket) -> None:
        begun.release()
        release.wait(30)
        connection.sendall(b"served")

    serve(hold, *(theirs for _, theirs in pairs))
    assert [begun.acquire(timeout=30) for _ in range(MOST)] == [True, True]
    # The third one hears nothing at all.
    assert pairs[2][0].recv(10) == b""
    release.set()
    assert [ours.recv(10) for ours, _ in pairs[:2]] == [b"served"] * 2
    assert [ours.recv(10) for ours, _ in pairs[:2]] == [b""] * 2


def test_errors_of_one_connection_and_a_lack_of_descriptors_end_nothing(
    pairs: Pairs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_PAUSE_S", 0)
    begun = threading.Semaphore(0)

    def fail(connection: socket.socket) -> None:
        begun.release()
        raise BrokenPipeError

    serve(fail, errno.EMFILE, pairs[0][1], errno.ECONNABORTED, pairs[1][1])
    assert [begun.acquire(timeout=30) for _ in range(MOST)] == [True, True]
    assert [ours.recv(1) for ours, _ in pairs[:MOST]] == [b"", b""]


def test_where_no_thread_starts_the_connection_is_closed_and_its_place_kept(
    pairs: Pairs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, failures = threading.Thread.start, [True] * MOST

    def refuse(thread: threading.Thread) -> None:
        if failures:
            failures.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    serve(lambda connection: connection.sendall(b"served"), *(theirs for _, theirs in pairs))
    assert [ours.recv(10) for ours, _ in pairs] == [b""] * MOST + [b"served"]


def test_of_nobody_is_none_and_owners_do_not_take_places_of_others(pairs: Pairs) -> None:
    release = threading.Event()
    owners = iter([None, "a", "b"])

    def hold(connection: socket.socket) -> None:
        release.wait(30)
        connection.sendall(b"served")

    listener = Listener(*(theirs for _, theirs in pairs))
    serve_each(listener, 1, hold, lambda _: next(owners))  # type: ignore[arg-type]
    assert pairs[0][0].recv(10) == b""
    release.set()
    assert [ours.recv(10) for ours, _ in pairs[1:]] == [b"served"] * 2
