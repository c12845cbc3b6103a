"""A training loop with one thing planted that holds it up.

usage: planted.py NAME ITERATIONS, NAME one of PROGRAMS

Marks each iteration and its phases as NVTX ranges; what is not planted takes a millisecond.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

import nvtx

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

STEPS = 4


def burn(cpu_ms: float) -> None:
    """Use a CPU for so long."""
    end_ns = time.thread_time_ns() + int(cpu_ms * 1e6)
    while time.thread_time_ns() < end_ns:
        pass


def phase(name: str, cpu_ms: float) -> None:
    with nvtx.annotate(name):
        burn(cpu_ms)


def train(
    iterations: int,
    *,
    simulation: float = 0.3,
    inference: float = 0.3,
    backpropagation: float = 0.4,
    planted: Callable[[], object] = lambda: None,
) -> None:
    """Act and learn in one process; times are CPU ms of an iteration."""
    for _ in range(iterations):
        with nvtx.annotate("iteration"):
            for _ in range(STEPS):
                phase("inference", inference / STEPS)
                phase("simulation", simulation / STEPS)
            planted()
            phase("backpropagation", backpropagation)


def work(pipe: Connection, cpu_ms: float, values: int) -> None:
    """Step an environment whose observations hold so many values."""
    observation = [1.0] * values
    while pipe.recv() is not None:
        phase("simulation", cpu_ms)
        pipe.send(observation)


def vectorized(iterations: int, cpu_ms: float, values: int) -> None:
    """Act with one worker, so that nobody waits for a CPU; cpu_ms: of a step."""
    pipe, end = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=work, args=(end, cpu_ms, values), daemon=True)
    worker.start()
    pipe.send([])
    pipe.recv()
    actions = [1.0] * values
    for _ in range(iterations):
        with nvtx.annotate("iteration"):
            for _ in range(STEPS):
                with nvtx.annotate("simulation"):
                    pipe.send(actions)
                    pipe.recv()
            phase("backpropagation", 0.4)
    pipe.send(None)
    worker.join()


def beside(target: Callable[[], None], iterations: int) -> None:
    """Train while a thread of this process does something else."""
    threading.Thread(target=target, daemon=True).start()
    train(iterations)


def crowd(iterations: int) -> None:
    """Train on one CPU with three other processes of ours."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    others = [multiprocessing.Process(target=burn, args=(1e6,), daemon=True) for _ in range(3)]
    for other in others:
        other.start()
    train(iterations)
    for other in others:
        other.kill()


def count() -> None:
    """Need the GIL all the time."""
    while True:
        pass


def serve(listening: socket.socket) -> None:
    """Answer over the network stack, after a while."""
    connection, _ = listening.accept()
    while connection.recv(1):
        burn(5)
        connection.send(b"a")


def networked(iterations: int) -> None:
    """Train with a server that is asked in each iteration."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(1)
    server = multiprocessing.Process(target=serve, args=(listening,), daemon=True)
    server.start()
    with socket.create_connection(listening.getsockname()) as asked:
        train(iterations, planted=lambda: (asked.send(b"q"), asked.recv(1)))
    server.join()


PROGRAMS: dict[str, Callable[[int], None]] = {
    "simulation": functools.partial(train, simulation=5),
    "backpropagation": functools.partial(train, backpropagation=5),
    "inference": functools.partial(train, inference=5),
    "timer_sleep": functools.partial(train, planted=lambda: time.sleep(0.005)),
    "gil_contention": functools.partial(beside, count),
    "cpu_contention": crowd,
    "message_overhead": functools.partial(vectorized, cpu_ms=0.05, values=50_000),
    "worker_simulation": functools.partial(vectorized, cpu_ms=2, values=10),
    "other_code": functools.partial(train, planted=lambda: burn(5)),
    "other_wait": networked,
}


def main() -> None:
    """Run the program of that name."""
    name, iterations = sys.argv[1], int(sys.argv[2])
    PROGRAMS[name](iterations)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
