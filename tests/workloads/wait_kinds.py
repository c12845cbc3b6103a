"""Waits --times times for each of several things, one kind after the other, in the main thread.

A child answers requests after --delay-ms: over a pipe, a socket pair or TCP. A helper thread lets
go of a lock. The kinds: sleep, pipe, socketpair, tcp, poll (of the pipe), lock, mutex (of the C
library), child (the end of one), disk (fsync of 1 MiB in --directory).

Truth: `kinds[KIND]` = start_ns, end_ns, and waits, the [begin, end] of each call that waits in ns
of CLOCK_MONOTONIC; responder: the pid of the child that answers. A call waits once as a rule: not
at all where the answer was faster, more often where the OS kernel has it so (fsync).
"""

import ctypes
import os
import select
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from handshake import begin, finish, parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

arguments = parser(__doc__)
arguments.add_argument("--times", type=int, default=20)
arguments.add_argument("--delay-ms", type=float, default=5.0)
arguments.add_argument("--directory", default=".")
options = arguments.parse_args()
delay_s = options.delay_ms / 1000
Span = tuple[int, int]


def span(wait: "Callable[[], object]") -> Span:
    """Return when a call began and ended."""
    begin_ns = time.monotonic_ns()
    wait()
    return begin_ns, time.monotonic_ns()


def respond(requests: int, answer: "Callable[[bytes], object]") -> None:
    """Answer every byte with a byte, later."""
    while os.read(requests, 1):
        time.sleep(delay_s)
        answer(b"!")


class Responder:
    """A child that answers over a pipe, a socket pair or TCP, as the request says."""

    def __init__(self) -> None:
        self.kinds = ("pipe", "socketpair", "tcp")
        requests = {kind: os.pipe() for kind in self.kinds}
        answers, near = os.pipe(), socket.socketpair()
        server = socket.create_server(("127.0.0.1", 0))
        self.pid = os.fork()
        if self.pid == 0:
            client = socket.create_connection(server.getsockname())
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for kind in self.kinds:
                os.close(requests[kind][1])
            respond(requests["pipe"][0], lambda byte: os.write(answers[1], byte))
            respond(requests["socketpair"][0], near[1].send)
            respond(requests["tcp"][0], client.send)
            os._exit(0)
        accepted, _ = server.accept()
        self._requests = {kind: pipe[1] for kind, pipe in requests.items()}
        self._receive = {
            "pipe": lambda: os.read(answers[0], 1),
            "socketpair": lambda: near[0].recv(1),
            "tcp": lambda: accepted.recv(1),
        }
        self._answers = answers[0]

    def ask(self, kind: str) -> Span:
        """Ask, and wait for the answer."""
        os.write(self._requests[kind], b"?")
        return span(self._receive[kind])

    def ask_and_poll(self) -> Span:
        """Ask over the pipe, and wait until there is an answer before it is read."""
        os.write(self._requests["pipe"], b"?")
        waited = span(lambda: select.select([self._answers], [], []))
        self._receive["pipe"]()
        return waited

    def end(self, kind: str) -> None:
        """Have it go on to the next kind."""
        os.close(self._requests[kind])


def locked(times: int) -> "Iterator[Span]":
    """Wait for locks that a thread releases later."""
    for _ in range(times):
        lock = threading.Lock()
        lock.acquire()
        # Not threading.Timer: its own waits are for locks too.
        releaser = threading.Thread(target=lambda lock=lock: (time.sleep(delay_s), lock.release()))
        releaser.start()
        yield span(lock.acquire)
        releaser.join()


def locked_in_c(times: int) -> "Iterator[Span]":
    """Wait for a mutex of the C library that another thread unlocks later."""
    library, mutex, has_it = ctypes.CDLL(None), ctypes.create_string_buffer(64), threading.Event()

    def keep() -> None:
        library.pthread_mutex_lock(mutex)
        has_it.set()
        time.sleep(delay_s)
        library.pthread_mutex_unlock(mutex)

    for _ in range(times):
        has_it.clear()
        keeper = threading.Thread(target=keep)
        keeper.start()
        has_it.wait()
        yield span(lambda: library.pthread_mutex_lock(mutex))
        library.pthread_mutex_unlock(mutex)
        keeper.join()


def ended_children(times: int) -> "Iterator[Span]":
    """Wait for children that sleep and end."""
    for _ in range(times):
        child = os.fork()
        if child == 0:
            time.sleep(delay_s)
            os._exit(0)
        yield span(lambda child=child: os.waitpid(child, 0))


def synced(times: int) -> "Iterator[Span]":
    """Write to a file and wait for the disk."""
    path = Path(options.directory, "synced")
    with path.open("wb") as file:
        for _ in range(times):
            file.write(os.urandom(1 << 20))
            file.flush()
            yield span(lambda: os.fsync(file.fileno()))
    path.unlink()


reported: dict[str, dict[str, object]] = {}


def measure(kind: str, waits: "Iterator[Span]") -> None:
    start_ns = time.monotonic_ns()
    spans = list(waits)
    reported[kind] = {"start_ns": start_ns, "end_ns": time.monotonic_ns(), "waits": spans}


responder = Responder()
begin(options)
times = range(options.times)
measure("sleep", (span(lambda: time.sleep(delay_s)) for _ in times))
measure("poll", (responder.ask_and_poll() for _ in times))
for kind in responder.kinds:
    measure(kind, (responder.ask(kind) for _ in times))
    responder.end(kind)
measure("lock", locked(options.times))
measure("mutex", locked_in_c(options.times))
measure("child", ended_children(options.times))
measure("disk", synced(options.times))
os.waitpid(responder.pid, 0)
finish(options, kinds=reported, responder=responder.pid)
