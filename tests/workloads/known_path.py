"""Programs of which it is known what holds an iteration up.

usage: known_path.py {workers,pipeline,gil,three,timer,lock,mutex,semaphore,alone} ROUNDS

Marks each iteration as an NVTX range. Prints, as its last line, the pids and tids of those who take
part, by role, and what its own timers say.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import nvtx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier, Lock, Semaphore


def burn(cpu_ms: float) -> None:
    """Use a CPU for so long."""
    end_ns = time.thread_time_ns() + int(cpu_ms * 1e6)
    while time.thread_time_ns() < end_ns:
        pass


def answer(pipe: Connection, cpu_ms: float) -> None:
    """Work on each request before it is answered."""
    while (message := pipe.recv()) is not None:
        burn(cpu_ms)
        pipe.send(message)


def workers(rounds: int) -> dict[str, object]:
    """Two workers are asked at once, of which one takes three times as long."""
    pipes = [multiprocessing.Pipe() for _ in range(2)]
    children = [
        multiprocessing.Process(target=answer, args=(end, cpu_ms))
        for (_, end), cpu_ms in zip(pipes, (1, 3), strict=True)
    ]
    for child in children:
        child.start()
    for number in range(rounds + 1):
        # The first round waits for the workers to start.
        if number:
            nvtx.push_range("iteration")
        for pipe, _ in pipes:
            pipe.send(number)
        for pipe, _ in pipes:
            pipe.recv()
        burn(1)
        if number:
            nvtx.pop_range()
    for pipe, _ in pipes:
        pipe.send(None)
    for child in children:
        child.join()
    return {"fast": children[0].pid, "slow": children[1].pid}


def stage(source: Connection, sink: Connection, cpu_ms: float, ready: Barrier) -> None:
    """Work on what comes from the source before it goes to the sink."""
    ready.wait()
    while (message := source.recv()) is not None:
        burn(cpu_ms)
        sink.send(message)
    sink.send(None)


def connected(
    target: Callable[..., None], works_ms: Sequence[float]
) -> tuple[Connection, Connection, list[multiprocessing.Process]]:
    """Start a stage for each of these; return where to send, where to receive, and the stages."""
    ends = [multiprocessing.Pipe(duplex=False) for _ in range(len(works_ms) + 1)]
    ready = multiprocessing.Barrier(len(works_ms) + 1)
    children = [
        multiprocessing.Process(target=target, args=(ends[at][0], ends[at + 1][1], cpu_ms, ready))
        for at, cpu_ms in enumerate(works_ms)
    ]
    for child in children:
        child.start()
    ready.wait()
    return ends[0][1], ends[-1][0], children


def pipeline(rounds: int) -> dict[str, object]:
    """Two stages, of which the last takes five times as long as the first."""
    first, last, children = connected(stage, (0.4, 2.0))
    with nvtx.annotate("iteration"):
        for number in range(rounds):
            first.send(number)
        first.send(None)
        while last.recv() is not None:
            pass
    for child in children:
        child.join()
    return {"first": children[0].pid, "last": children[1].pid}


def gil(rounds: int) -> dict[str, object]:
    """Two threads that need the GIL all the time."""
    tids: list[int] = []

    def count() -> None:
        tids.append(threading.get_native_id())
        burn(rounds)

    threads = [threading.Thread(target=count) for _ in range(2)]
    with nvtx.annotate("iteration"):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {"tids": tids}


def three(rounds: int) -> dict[str, object]:
    """Three threads that need the GIL all the time, for 1, 1 and 2 parts; all wait for the last."""
    meeting = threading.Barrier(3)
    cpu_ns: dict[int, int] = {}

    def count(parts: int) -> None:
        before_ns = time.thread_time_ns()
        for _ in range(rounds):
            burn(20 * parts)
            meeting.wait()
        cpu_ns[threading.get_native_id()] = time.thread_time_ns() - before_ns

    threads = [threading.Thread(target=count, args=(parts,)) for parts in (1, 2)]
    with nvtx.annotate("iteration"):
        for thread in threads:
            thread.start()
        count(1)
        for thread in threads:
            thread.join()
    return {"cpu_ns": cpu_ns}


def timer(rounds: int) -> dict[str, object]:
    """Sleep twice as long as to work."""
    slept_ns = 0
    for _ in range(rounds):
        with nvtx.annotate("iteration"):
            start_ns = time.monotonic_ns()
            time.sleep(0.002)
            slept_ns += time.monotonic_ns() - start_ns
            burn(1)
    return {"slept_ns": slept_ns}


def keep(mutex: Semaphore, kept: Semaphore, wanted: Semaphore, rounds: int) -> None:
    """Have the lock for a while, whenever somebody wants it."""
    for _ in range(rounds):
        with mutex:
            kept.release()
            burn(3)
        wanted.acquire()


def lock(rounds: int) -> dict[str, object]:
    """Wait for a lock that another process keeps."""
    mutex, kept, wanted = (multiprocessing.Semaphore(number) for number in (1, 0, 0))
    child = multiprocessing.Process(target=keep, args=(mutex, kept, wanted, rounds))
    child.start()
    for _ in range(rounds):
        kept.acquire()
        with nvtx.annotate("iteration"):
            with mutex:
                pass
            burn(0.1)
        wanted.release()
    child.join()
    return {"holder": child.pid}


def share(lock: Lock | Semaphore, rounds: int) -> dict[str, object]:
    """Need a lock that another process has most of the time, and sleeps now and then without it."""
    child = multiprocessing.Process(target=keep_mostly, args=(lock, rounds * 20), daemon=True)
    child.start()
    waited_ns, begin_ns = 0, time.monotonic_ns()
    for _ in range(rounds):
        with nvtx.annotate("iteration"):
            burn(4)
            start_ns = time.monotonic_ns()
            with lock:
                waited_ns += time.monotonic_ns() - start_ns
                burn(1)
    took_ns = time.monotonic_ns() - begin_ns
    child.kill()
    return {"waited_ns": waited_ns, "took_ns": took_ns}


def keep_mostly(lock: Lock | Semaphore, rounds: int) -> None:
    for _ in range(rounds):
        with lock:
            burn(6)
        time.sleep(0.003)


def mutex(rounds: int) -> dict[str, object]:
    return share(multiprocessing.Lock(), rounds)


def semaphore(rounds: int) -> dict[str, object]:
    return share(multiprocessing.Semaphore(1), rounds)


def alone(rounds: int) -> dict[str, object]:
    """Work, and wait for nothing; look at what NEIGHBOUR_PID uses of a CPU meanwhile."""
    neighbour = Path("/proc", os.environ.get("NEIGHBOUR_PID", "self"), "schedstat")
    with nvtx.annotate("iteration"):
        start_ns = time.thread_time_ns()
        neighbour_ns = -int(neighbour.read_text().split()[0])
        burn(rounds)
        neighbour_ns += int(neighbour.read_text().split()[0])
        used_ns = time.thread_time_ns() - start_ns
    return {"cpu_ns": used_ns, "neighbour_cpu_ns": neighbour_ns}


def main() -> None:
    program, rounds = sys.argv[1], int(sys.argv[2])
    programs = {
        "workers": workers, "pipeline": pipeline, "gil": gil, "three": three, "timer": timer,
        "lock": lock, "mutex": mutex, "semaphore": semaphore, "alone": alone,
    }  # fmt: skip
    sys.stdout.write(json.dumps({"pid": os.getpid()} | programs[program](rounds)) + "\n")


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
