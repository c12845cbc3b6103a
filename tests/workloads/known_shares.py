"""Programs that time what part of an iteration each of those who take part in it has.

usage: known_shares.py NAME ROUNDS, NAME one of PROGRAMS

Marks each iteration as an NVTX range, and what is work in it. Prints, as its last line, pids by
role, and shares that the critical path should have.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nvtx
from known_path import burn, connected

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier

MESSAGE = bytes(8 << 20)


class Clock:
    """Adds up how long something takes, and how long its thread has, or wants, a CPU meanwhile."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.time_ns = self.cpu_ns = 0

    def __enter__(self) -> None:
        self.time_ns -= time.monotonic_ns()
        self.cpu_ns -= wanted_cpu_ns()

    def __exit__(self, *_: object) -> None:
        self.cpu_ns += wanted_cpu_ns()
        self.time_ns += time.monotonic_ns()


def wanted_cpu_ns() -> int:
    """Return how long this thread was runnable: it ran, or waited for a CPU."""
    ran_ns, waited_ns, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return int(ran_ns) + int(waited_ns)


def iterate(rounds: int, once: Callable[[], object], *clocks: Clock) -> int:
    """Return how long the iterations take; one before them counts for no clock."""
    once()
    for clock in clocks:
        clock.reset()
    total = Clock()
    for _ in range(rounds):
        with nvtx.annotate("iteration"), total:
            once()
    return total.time_ns


def work(clock: Clock, cpu_ms: float) -> None:
    with clock, nvtx.annotate("work"):
        burn(cpu_ms)


def answer(pipe: Connection, cpu_ms: float, reply: bytes) -> None:
    """Work on each request before it is answered; in the end tell how long that took."""
    clock = Clock()
    pipe.recv()
    pipe.send(reply)
    while pipe.recv():
        work(clock, cpu_ms)
        pipe.send(reply)
    pipe.send(clock.time_ns)


def ask(rounds: int, works_ms: tuple[float, ...], own_ms: float, reply: bytes) -> dict[str, Any]:
    """Ask all workers, wait for all of them, and work on the answers."""
    pipes = [multiprocessing.Pipe() for _ in works_ms]
    children = [
        multiprocessing.Process(target=answer, args=(end, cpu_ms, reply))
        for (_, end), cpu_ms in zip(pipes, works_ms, strict=True)
    ]
    for child in children:
        child.start()
    own = Clock()

    def once() -> None:
        for pipe, _ in pipes:
            pipe.send(True)
        for pipe, _ in pipes:
            pipe.recv()
        work(own, own_ms)

    total_ns = iterate(rounds, once, own)
    for pipe, _ in pipes:
        pipe.send(False)
    worked = [pipe.recv() / total_ns for pipe, _ in pipes]
    for child in children:
        child.join()
    pids = {f"worker_{at}": child.pid for at, child in enumerate(children)}
    return {"pids": pids, "shares": {"own": own.time_ns / total_ns}, "workers": worked}


def two_workers(rounds: int) -> dict[str, Any]:
    """One of two workers takes three times as long as the other."""
    found = ask(rounds, (1, 3), 1, b"m")
    found["shares"]["worker_1"] = found["workers"][1]
    return found


def straggler(rounds: int) -> dict[str, Any]:
    """One of four workers takes six times as long as each of the others."""
    found = ask(rounds, (0.5, 0.5, 0.5, 6), 1, b"m")
    found["shares"]["worker_3"] = found["workers"][3]
    return found


def messages(rounds: int) -> dict[str, Any]:
    """One worker, whose messages are large: all that is no work is for them."""
    found = ask(rounds, (2,), 2, MESSAGE)
    found["shares"] = {"no_work": 1 - found["shares"]["own"] - found["workers"][0]}
    return found


def stage(source: Connection, sink: Connection, cpu_ms: float, ready: Barrier) -> None:
    """Work on what comes from the source before it goes to the sink; then tell how long it took."""
    clock = Clock()
    ready.wait()
    while source.recv():
        work(clock, cpu_ms)
        sink.send(1)
    sink.send(0)
    sink.send(clock.time_ns)


def three_stages(rounds: int) -> dict[str, Any]:
    """Three stages with buffers between them; the one in the middle takes longest."""
    first, last, children = connected(stage, (0.3, 3))
    own, total = Clock(), Clock()
    with nvtx.annotate("iteration"), total:
        for _ in range(rounds):
            first.send(1)
        first.send(0)
        while last.recv():
            work(own, 0.3)
    middle_ns = last.recv()
    for child in children:
        child.join()
    return {"pids": {"middle": children[1].pid}, "shares": {"middle": middle_ns / total.time_ns}}


def timer(rounds: int) -> dict[str, Any]:
    """Sleep twice as long as to work."""
    slept = Clock()

    def once() -> None:
        with slept:
            time.sleep(0.004)
        burn(2)

    total_ns = iterate(rounds, once, slept)
    return {"shares": {"timer": slept.time_ns / total_ns}}


def fsync(rounds: int) -> dict[str, Any]:
    """Write to disk in each step, and wait for it."""
    synced = Clock()
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:

        def once() -> None:
            burn(1)
            file.write(bytes(4096))
            file.flush()
            with synced:
                os.fsync(file.fileno())

        total_ns = iterate(rounds, once, synced)
    return {"shares": {"disk": (synced.time_ns - synced.cpu_ns) / total_ns}}


def openmp(rounds: int) -> dict[str, Any]:
    """Work alone, then on eight threads for two CPUs."""
    import torch

    torch.set_num_threads(8)
    left = torch.rand(900, 900)
    own = Clock()

    def once() -> None:
        work(own, 15)
        torch.mm(left, left)

    total_ns = iterate(rounds, once, own)
    return {"shares": {"own": own.time_ns / total_ns}}


def loader(rounds: int) -> dict[str, Any]:
    """Wait for a DataLoader, which has one worker for batches that take five times as long."""
    from torch.utils.data import DataLoader

    batches = iter(DataLoader(range(4 * rounds + 4), batch_size=4, num_workers=1, collate_fn=batch))
    own = Clock()

    def once() -> None:
        next(batches)
        work(own, 2)

    total_ns = iterate(rounds, once, own)
    return {"shares": {"own": own.time_ns / total_ns}}


def batch(numbers: list[int]) -> list[int]:
    burn(10)
    return numbers


PROGRAMS: dict[str, Callable[[int], dict[str, Any]]] = {
    "two_workers": two_workers,
    "straggler": straggler,
    "messages": messages,
    "three_stages": three_stages,
    "timer": timer,
    "fsync": fsync,
    "openmp": openmp,
    "loader": loader,
}


def main() -> None:
    """Run the program of that name."""
    name, rounds = sys.argv[1], int(sys.argv[2])
    sys.stdout.write(json.dumps({"pid": os.getpid()} | PROGRAMS[name](rounds)) + "\n")


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
