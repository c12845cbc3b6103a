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
import tempfile
import threading
import time
from typing import TYPE_CHECKING

import numpy
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


def glue(rounds: int) -> None:
    """Run Python code, and no call of anything."""
    total = 0
    for number in range(rounds):
        total += number * number % 7


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


def acted(iterations: int) -> None:
    """Wait for an actor, a thread of this process that computes without the GIL."""
    wanted, made = threading.Semaphore(0), threading.Semaphore(0)

    def act() -> None:
        numbers = numpy.random.default_rng(0).random(300_000)
        while wanted.acquire():
            numpy.sort(numbers)
            made.release()

    threading.Thread(target=act, name="actor", daemon=True).start()
    for _ in range(iterations):
        with nvtx.annotate("iteration"):
            with nvtx.annotate("wait"):
                wanted.release()
                made.acquire()
            phase("backpropagation", 1)


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


def ask_server(address: tuple[str, int], iterations: int) -> None:
    """Train with a server that is asked in each iteration."""
    with socket.create_connection(address) as asked:
        train(iterations, planted=lambda: (asked.send(b"q"), asked.recv(1)))


def local_server(iterations: int) -> None:
    """Ask a process of the program."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.Process(target=serve, args=(listening,), daemon=True)
    server.start()
    ask_server(listening.getsockname(), iterations)
    server.join()


def server(_: int) -> None:
    """Be one, and say where."""
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    serve(listening)


def strange_server(iterations: int) -> None:
    """Ask a server that whoever started this program runs."""
    ask_server(("127.0.0.1", int(os.environ["PLANTED_SERVER_PORT"])), iterations)


def locked(iterations: int) -> None:
    """Take a lock in each iteration that another process hardly ever gives back."""
    lock = multiprocessing.Lock()

    def hold() -> None:
        while True:
            with lock:
                burn(6)
            # Long enough for whoever waits to get it.
            time.sleep(0.0005)

    other = multiprocessing.Process(target=hold, daemon=True)
    other.start()

    def log() -> None:
        with lock:
            burn(0.05)

    train(iterations, planted=log)
    other.kill()


def synced(iterations: int) -> None:
    """Write a checkpoint in each iteration, down to the disk."""
    with tempfile.NamedTemporaryFile(dir=".") as file:

        def save() -> None:
            for _ in range(8):
                file.write(b"state")
                file.flush()
                os.fsync(file.fileno())

        train(iterations, planted=save)


def crew(iterations: int, cpu_ms: list[float], *, in_turn: bool = False) -> None:
    """Act with a worker for each of cpu_ms: all at once, or one after the other."""
    pairs = [multiprocessing.Pipe() for _ in cpu_ms]
    workers = [
        multiprocessing.Process(target=work, args=(end, each, 1), daemon=True)
        for (_, end), each in zip(pairs, cpu_ms, strict=True)
    ]
    for worker in workers:
        worker.start()
    pipes = [pipe for pipe, _ in pairs]
    for _ in range(iterations):
        with nvtx.annotate("iteration"):
            for _ in range(STEPS):
                with nvtx.annotate("simulation"):
                    ask(pipes, in_turn=in_turn)
            phase("backpropagation", 0.4)
    for pipe, worker in zip(pipes, workers, strict=True):
        pipe.send(None)
        worker.join()


def ask(pipes: list[Connection], *, in_turn: bool) -> None:
    if in_turn:
        for pipe in pipes:
            pipe.send([])
            pipe.recv()
        return
    for pipe in pipes:
        pipe.send([])
    for pipe in pipes:
        pipe.recv()


def pooled(iterations: int) -> None:
    """Let another process do what is in no phase."""
    with multiprocessing.Pool(1) as pool:
        train(iterations, planted=lambda: pool.apply(burn, (5,)))


def imports(cpu_ms: float) -> None:
    """Start for so long, as with imports, and then train."""
    burn(cpu_ms)
    train(20)


def importing(pipe: Connection) -> None:
    burn(3000)
    work(pipe, 0.02, 1)


def slow_workers(iterations: int) -> None:
    """Act with a worker that takes longer to start than it has work."""
    pipe, end = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=importing, args=(end,), daemon=True)
    worker.start()
    pipe.send([])
    pipe.recv()
    for _ in range(min(iterations, 40)):
        with nvtx.annotate("iteration"):
            for _ in range(STEPS):
                with nvtx.annotate("simulation"):
                    pipe.send([])
                    pipe.recv()
            phase("backpropagation", 0.4)
    pipe.send(None)
    worker.join()


PROGRAMS: dict[str, Callable[[int], None]] = {
    "simulation": functools.partial(train, simulation=5),
    "backpropagation": functools.partial(train, backpropagation=5),
    "inference": functools.partial(train, inference=5),
    "timer_sleep": functools.partial(train, planted=lambda: time.sleep(0.005)),
    "thread_bound": acted,
    "gil_contention": functools.partial(beside, count),
    "cpu_contention": crowd,
    "message_overhead": functools.partial(vectorized, cpu_ms=0.05, values=50_000),
    "worker_simulation": functools.partial(vectorized, cpu_ms=2, values=10),
    "lock_contention": locked,
    "blocking_io": synced,
    "straggler": lambda iterations: crew(iterations, [6, 1, 1]),
    "idle_workers": lambda iterations: crew(iterations, [2, 2], in_turn=True),
    "worker_bound": pooled,
    "data_bound": functools.partial(train, planted=lambda: phase("data", 5)),
    "start_up": lambda _: imports(3000),
    "worker_start_up": slow_workers,
    "balanced": functools.partial(train, simulation=2, inference=2, backpropagation=2),
    "python_overhead": functools.partial(train, planted=lambda: glue(100_000)),
    "local_server": local_server,
    "network_wait": strange_server,
    "server": server,
}


def main() -> None:
    """Run the program of that name."""
    name, iterations = sys.argv[1], int(sys.argv[2])
    PROGRAMS[name](iterations)


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
