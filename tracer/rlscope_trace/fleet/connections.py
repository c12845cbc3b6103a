"""Connections of a listening socket: each in a thread of its own, and no more than so many."""

from __future__ import annotations

import errno
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

# What accept() says of a socket that was closed or shut down.
_CLOSED = frozenset({errno.EBADF, errno.EINVAL})
_PAUSE_S = 0.1


def serve_each(listener: socket.socket, most: int, serve: Callable[[socket.socket], None]) -> None:
    """Serve each connection until the listener is closed.

    One that comes when there are `most` already, or no thread for it, is closed at once. What goes
    wrong with a connection ends that one.
    """
    free = threading.Semaphore(most)

    def one(connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):
                serve(connection)
        finally:
            free.release()

    while True:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in _CLOSED:
                return
            # There are too many open files, or the peer has gone already.
            time.sleep(_PAUSE_S)
            continue
        if not free.acquire(blocking=False):
            connection.close()
            continue
        try:
            threading.Thread(target=one, args=(connection,), daemon=True).start()
        except RuntimeError:
            free.release()
            connection.close()
