"""Keeps one right of root that recording needs now and then: to have BPF programs timed.

A process of its own has it, and can do nothing else (tracer/native/probes/run_time_stats.h).
"""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, NoReturn

from rlscope_trace.confinement import confine

if TYPE_CHECKING:
    from collections.abc import Callable

_RIGHT = frozenset({"CAP_SYS_ADMIN"})
_MOST_DESCRIPTORS = 1 << 16
# Behind the three standard streams.
_SOCKET = 3

_running: list[int] = []
"""Our end of the socket."""


def start() -> None:
    """Start it, with the rights we have now. It ends with stop(), or with us."""
    # Here, because a broken native module must not keep other commands from working.
    from rlscope_trace import _capture

    ours, its = socket.socketpair()
    # None may end it but the end of its socket.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    child = os.fork()
    if child == 0:
        # Twice: the only child of a recorder is the program that it has launched.
        if os.fork() == 0:
            _serve(its, _capture.serve_run_time_stats)
        os._exit(0)
    os.waitpid(child, 0)
    # Its end is nothing that somebody else waits for.
    signal.sigtimedwait({signal.SIGCHLD}, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    its.close()
    _running.append(ours.detach())
    _capture.use_run_time_stats_server(_running[-1])


def stop() -> None:
    """End it, if it runs."""
    while _running:
        from rlscope_trace import _capture

        _capture.use_run_time_stats_server(-1)
        os.close(_running.pop())


def _serve(its: socket.socket, serve: Callable[[int], NoReturn]) -> NoReturn:
    try:
        os.dup2(its.fileno(), _SOCKET)
        os.closerange(_SOCKET + 1, _MOST_DESCRIPTORS)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(_SOCKET):
            os.dup2(null, stream)
        os.close(null)
        confine(None, _RIGHT)
        serve(_SOCKET)
    finally:
        os._exit(1)
