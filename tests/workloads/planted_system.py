"""Training over several processes, as people write it, with one thing planted.

usage: planted_system.py NAME ITERATIONS, NAME one of PROGRAMS

Marks its phases as NVTX ranges, and mostly its iterations too. What is not planted takes a
millisecond or two of an iteration. The last line is the truth, as JSON.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.managers import BaseManager
from multiprocessing.pool import Pool
from typing import TYPE_CHECKING, Any

import nvtx
from planted_work import Truth, work

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 4


def phase(name: str, cpu_ms: float) -> None:
    with nvtx.annotate(name):
        work(cpu_ms)


def train(
    iterations: int,
    planted: Callable[[], object] = lambda: None,
    *,
    simulation: float = 0.5,
    inference: float = 0.5,
    backpropagation: float = 0.5,
) -> Truth:
    """Act and learn in one process, with something between the two; CPU ms of an iteration."""
    truth = Truth()
    for _ in range(iterations):
        with nvtx.annotate("iteration"):
            for _ in range(STEPS):
                phase("inference", inference / STEPS)
                phase("simulation", simulation / STEPS)
            with truth.planted():
                planted()
            phase("backpropagation", backpropagation)
    return truth


def child(target: Callable[..., object], *arguments: object) -> multiprocessing.Process:
    started = multiprocessing.Process(target=target, args=arguments, daemon=True)
    started.start()
    return started


# Actors that put what they played into a queue, and a learner that takes it.


def play(rollouts: Any, simulation: float, inference: float) -> None:
    while True:
        for _ in range(STEPS):
            phase("inference", inference / STEPS)
            phase("simulation", simulation / STEPS)
        rollouts.put([0.0] * 64)


def queued(
    iterations: int,
    *,
    actors: int = 1,
    simulation: float = 0.5,
    inference: float = 0.5,
    backpropagation: float = 0.5,
    polls: float = 0,
) -> Truth:
    """Learn from each rollout as soon as it is there; polls: ask so often, in seconds."""
    rollouts: Any = multiprocessing.Queue(maxsize=4)
    started = [child(play, rollouts, simulation, inference) for _ in range(actors)]
    rollouts.get()
    truth = Truth()
    for _ in range(iterations):
        with nvtx.annotate("iteration"):
            with truth.planted():
                if polls:
                    take_by_polling(rollouts, polls)
                else:
                    rollouts.get()
            phase("backpropagation", backpropagation)
    for each in started:
        each.kill()
        each.join()
    return truth


def take_by_polling(rollouts: Any, pause_s: float) -> None:
    while rollouts.empty():
        time.sleep(pause_s)
    rollouts.get()


# Servers.


def serve_parameters(listening: socket.socket, cpu_ms: float) -> None:
    connection, _ = listening.accept()
    while connection.recv(4096):
        work(cpu_ms)
        connection.sendall(bytes(100_000))


def parameter_server(iterations: int) -> Truth:
    """Push gradients to a server over TCP, and pull the parameters."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = child(serve_parameters, listening, 6)
    with socket.create_connection(listening.getsockname()) as asked:

        def pull() -> None:
            asked.sendall(bytes(1000))
            left = 100_000
            while left:
                left -= len(asked.recv(left))

        truth = train(iterations, pull)
    server.join()
    return truth


class Replay:
    """A replay buffer that lives in a process of its own."""

    def sample(self, count: int) -> list[float]:
        work(6)
        return [0.0] * count


class ReplayManager(BaseManager):
    """Serves it over a socket of the machine."""


ReplayManager.register("Replay", Replay)


def replay_server(iterations: int) -> Truth:
    """Ask a replay process for a batch in each iteration."""
    with ReplayManager() as manager:
        replay = manager.Replay()  # type: ignore[attr-defined]
        return train(iterations, lambda: replay.sample(256))


def awaiting(iterations: int) -> Truth:
    """Wait for eight slow services at once with asyncio."""

    async def one() -> None:
        await asyncio.sleep(0.008)

    async def all_of_them() -> None:
        await asyncio.gather(*(one() for _ in range(8)))

    with asyncio.Runner() as runner:
        return train(iterations, lambda: runner.run(all_of_them()))


def helper_program(iterations: int) -> Truth:
    """Start a program in each iteration, as one that encodes a video."""
    encode = [sys.executable, "-S", "-c", "sum(n * n for n in range(600_000))"]
    return train(iterations, lambda: subprocess.run(encode, check=True))


def metrics_writer(iterations: int) -> Truth:
    """Hand metrics to a process that is slower than the training: its pipe is full."""
    receiving, sending = multiprocessing.Pipe(duplex=False)

    def write() -> None:
        while True:
            receiving.recv()
            work(8)

    writer = child(write)
    rows = [1.0] * 4000
    truth = train(iterations, lambda: sending.send(rows))
    writer.kill()
    writer.join()
    return truth


# Locks.


def shared_buffer(iterations: int) -> Truth:
    """Guard a buffer by a lock that a process which sorts it has most of the time."""
    lock = multiprocessing.Lock()

    def sort() -> None:
        while True:
            with lock:
                work(8)
            time.sleep(0.001)

    other = child(sort)

    def add() -> None:
        with lock:
            work(0.1)

    truth = train(iterations, add)
    other.kill()
    other.join()
    return truth


def compressing_threads(iterations: int) -> Truth:
    """Lock a table that threads of the process compress, without the GIL."""
    import zlib

    lock, data = threading.Lock(), os.urandom(400_000)

    def compress() -> None:
        while True:
            with lock:
                zlib.compress(data, 6)
            time.sleep(0.001)

    threading.Thread(target=compress, daemon=True).start()

    def add() -> None:
        with lock:
            work(0.1)

    return train(iterations, add)


# Workers that a learner asks.


def answer(pipe: Any, cpu_ms: float, values: int) -> None:
    observation = [0.0] * values
    while pipe.recv() is not None:
        phase("simulation", cpu_ms)
        pipe.send(observation)


def asked(
    iterations: int,
    cpu_ms: list[float],
    *,
    values: int = 8,
    in_turn: bool = False,
    others: float = 0.5,
) -> Truth:
    """Step environments in processes, all at once or one after the other.

    others: CPU ms of acting and of learning.
    """
    pipes = []
    started = []
    for each in cpu_ms:
        pipe, end = multiprocessing.Pipe()
        started.append(child(answer, end, each, values))
        pipes.append(pipe)

    def step() -> None:
        for _ in range(STEPS):
            with nvtx.annotate("simulation"):
                for pipe in pipes:
                    pipe.send([0.0])
                    if in_turn:
                        pipe.recv()
                for pipe in pipes:
                    if not in_turn:
                        pipe.recv()

    step()
    truth = train(iterations, step, simulation=0, inference=others, backpropagation=others)
    for pipe, each in zip(pipes, started, strict=True):
        pipe.send(None)
        each.join()
    return truth


def multiply(pipe: Any) -> None:
    import numpy as np

    matrix = np.random.default_rng(1).random((250, 250))
    pipe.send(None)
    while pipe.recv():
        with nvtx.annotate("simulation"):
            for _ in range(2):
                matrix @ matrix
        pipe.send(True)
    pipe.close()


def blas_workers(iterations: int) -> Truth:
    """Simulate with matrices in three processes that have a thread for each of two CPUs."""
    os.environ["OPENBLAS_NUM_THREADS"] = "2"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    pipes, started = [], []
    for _ in range(3):
        pipe, end = multiprocessing.Pipe()
        started.append(child(multiply, end))
        pipe.recv()
        pipes.append(pipe)

    def step() -> None:
        with nvtx.annotate("simulation"):
            for pipe in pipes:
                pipe.send(True)
            for pipe in pipes:
                pipe.recv()

    truth = train(iterations, step, simulation=0)
    for pipe, each in zip(pipes, started, strict=True):
        pipe.send(False)
        each.join()
    return truth


def episode(cpu_ms: float) -> float:
    phase("simulation", cpu_ms)
    return cpu_ms


def evolution(iterations: int, cpu_ms: list[float], *, others: float = 0.5) -> Truth:
    """Evaluate a population with a pool of processes, as evolution strategies do."""
    with Pool(2) as pool:
        pool.map(episode, [0.1, 0.1], chunksize=1)
        return train(
            iterations, lambda: pool.map(episode, cpu_ms, chunksize=1), simulation=0,
            inference=others, backpropagation=others,
        )  # fmt: skip


def crowded_evaluators(iterations: int) -> Truth:
    """Evaluate old policies in three processes on the CPU that the learner has."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    def evaluate() -> None:
        while True:
            work(50)

    others = [child(evaluate) for _ in range(3)]
    truth = train(iterations)
    for other in others:
        other.kill()
        other.join()
    return truth


def synced(iterations: int, times: int) -> Truth:
    """Write down to the disk in each iteration."""
    with tempfile.NamedTemporaryFile(dir=".") as file:

        def save() -> None:
            for _ in range(times):
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())

        return train(iterations, save)


def napping(iterations: int, seconds: float) -> Truth:
    return train(
        iterations, lambda: time.sleep(seconds), simulation=2, inference=2, backpropagation=2
    )


def with_a_quiet_thread(iterations: int) -> Truth:
    """Train beside a thread that flushes metrics now and then."""

    def flush() -> None:
        while True:
            time.sleep(0.05)
            work(0.5)

    threading.Thread(target=flush, daemon=True).start()
    return train(iterations, simulation=2, inference=2, backpropagation=2)


def with_a_free_lock(iterations: int) -> Truth:
    """Take a lock that another process wants once in a while."""
    lock = multiprocessing.Lock()

    def take() -> None:
        while True:
            time.sleep(0.02)
            with lock:
                work(0.1)

    other = child(take)

    def add() -> None:
        with lock:
            work(0.1)

    truth = train(iterations, add, simulation=2, inference=2, backpropagation=2)
    other.kill()
    other.join()
    return truth


PROGRAMS: dict[str, Callable[[int], Truth]] = {
    "slow_actor": lambda n: queued(n, simulation=6),
    "slow_actor_policy": lambda n: queued(n, inference=6),
    "slow_learner": lambda n: queued(n, actors=1, backpropagation=6),
    "polling_learner": lambda n: queued(n, simulation=1, polls=0.02),
    "parameter_server": parameter_server,
    "replay_server": replay_server,
    "asyncio_services": awaiting,
    "helper_program": helper_program,
    "metrics_writer": metrics_writer,
    "shared_buffer": shared_buffer,
    "compressing_threads": compressing_threads,
    "workers_straggler": lambda n: asked(n, [5, 0.7, 0.7, 0.7]),
    "workers_in_turn": lambda n: asked(n, [2, 2, 2], in_turn=True),
    "workers_messages": lambda n: asked(n, [0.05, 0.05], values=60_000),
    "workers_slow": lambda n: asked(n, [3, 3]),
    "blas_workers": blas_workers,
    "pool_straggler": lambda n: evolution(n, [9, 1]),
    "pool_slow": lambda n: evolution(n, [4, 4]),
    "cpu_contention": crowded_evaluators,
    "fsync": lambda n: synced(n, 8),
    # Balanced: nothing but acting and learning takes long.
    "balanced_naps": lambda n: napping(n, 0.0002),
    "balanced_thread": with_a_quiet_thread,
    "balanced_lock": with_a_free_lock,
    "balanced_queue": lambda n: queued(n, simulation=1.5, inference=1.5, backpropagation=3),
    "balanced_workers": lambda n: asked(n, [1, 1], others=4),
    "balanced_pool": lambda n: evolution(n, [4, 4], others=4),
}


def main() -> None:
    """Run the program of that name."""
    name, iterations = sys.argv[1], int(sys.argv[2])
    PROGRAMS[name](iterations).tell()


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
