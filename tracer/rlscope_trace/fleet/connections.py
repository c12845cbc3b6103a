"""Connections of a listening socket: each in a thread of its own, and no more than so many."""

from __future__ import annotations

import errno
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Hashable

# What accept() says of a socket that was closed or shut down.
_CLOSED = frozenset({errno.EBADF, errno.EINVAL})
_PAUSE_S = 0.1


def serve_each(
    listener: socket.socket,
    most: int,
    serve: Callable[[socket.socket], None],
    owner: Callable[[socket.socket], Hashable | None] = lambda _: 0,
) -> None:
    """Serve each connection until the listener is closed.

    owner: says whose a connection is; None: nobody's, it is closed at once. So is one that comes
    when its owner has `most` already, or when no thread can be started for it. What goes wrong with
    a connection ends that one.
    """
    held: Counter[Hashable] = Counter()
    lock = threading.Lock()

    def one(connection: socket.socket, whose: Hashable) -> None:
        try:
            with connection, suppress(OSError):
                serve(connection)
        finally:
            release(whose)

    def release(whose: Hashable) -> None:
        with lock:
            held[whose] -= 1

    while True:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in _CLOSED:
                return
            # There are too many open files, or the peer has gone already.
            time.sleep(_PAUSE_S)
            continue
        whose = None
        with suppress(OSError):
            whose = owner(connection)
        with lock:
            has_place = whose is not None and held[whose] < most
            held[whose] += has_place
        if not has_place:
            connection.close()
            continue
        try:
            threading.Thread(target=one, args=(connection, whose), daemon=True).start()
        except RuntimeError:
            release(whose)
            connection.close()
