"""Computes in known functions for known CPU times. Any Python from 3.9 on; no package is needed.

usage: sampled.py functions | threads | fork | library PATH | in_step PERIOD_NS. Prints
`ready PID`, waits for a line, prints the truth as one JSON object, and waits for a line again.

Truth: start_ns, end_ns, and by function: tid, and cpu_ns, the CPU time in it.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMES: dict[str, list[Any]] = {}


def burn(cpu_ns: int) -> int:
    """Use so much CPU time of this thread; return how much it was."""
    begin_ns = time.thread_time_ns()
    while time.thread_time_ns() < begin_ns + cpu_ns:
        for number in range(200):
            number * number
    return time.thread_time_ns() - begin_ns


def note(name: str, cpu_ns: int) -> None:
    """Add CPU time to a function."""
    TIMES.setdefault(name, [threading.get_native_id(), 0])[1] += burn(cpu_ns)


def plain() -> None:
    note("plain", 300_000_000)


class Kind:
    def method(self) -> None:
        note("method", 200_000_000)


def generator() -> Iterator[None]:
    for _ in range(10):
        note("generator", 10_000_000)
        yield


def callback() -> None:
    # Through C: sorted() calls back.
    sorted([1], key=lambda _: note("callback", 100_000_000) or 0)


def raising() -> None:
    try:
        try:
            note("raising", 50_000_000)
            raise ValueError
        finally:
            note("raising", 50_000_000)
    except ValueError:
        pass


def deep(levels: int) -> None:
    if levels == 0:
        note("deep", 100_000_000)
    else:
        deep(levels - 1)


def grün_日() -> None:  # noqa: N802 (a name that is not ASCII)
    note("grün_日", 100_000_000)


def functions() -> None:
    plain()
    Kind().method()
    for _ in generator():
        pass
    callback()
    raising()
    deep(100)
    grün_日()


def until(name: str, end_ns: float) -> None:
    """Compute until an instant of the clock that also ticks for a sampler."""
    begin_ns = time.thread_time_ns()
    while time.monotonic_ns() < end_ns:
        pass
    TIMES.setdefault(name, [threading.get_native_id(), 0])[1] += time.thread_time_ns() - begin_ns


def first(end_ns: float) -> None:
    until("first", end_ns)


def second(end_ns: float) -> None:
    until("second", end_ns)


def in_step(period_ns: str) -> None:
    """Half of each period in one function, half in another."""
    begin_ns, period = time.monotonic_ns(), float(period_ns)
    for number in range(int(3e9 / period)):
        first(begin_ns + (number + 0.5) * period)
        second(begin_ns + (number + 1) * period)


def worker(name: str, cpu_ns: int) -> None:
    exec(f"def {name}(): note('{name}', {cpu_ns})\n{name}()", globals())


def threads() -> None:
    made = [threading.Thread(target=worker, args=(f"thread_{i}", 150_000_000)) for i in range(4)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join()


def fork() -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        note("child", 300_000_000)
        os.write(writer, json.dumps(TIMES).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    TIMES.update(json.loads(os.read(reader, 4096)))


def library(path: str) -> None:
    work = ctypes.CDLL(path)
    for name in ("compute_for", "copy_for", "spin_for"):
        function = getattr(work, name)
        function.argtypes, function.restype = [ctypes.c_int64], ctypes.c_int64
    # In turns, so that a busy machine disturbs all alike.
    for _ in range(20):
        for name in ("compute_for", "copy_for", "spin_for"):
            TIMES.setdefault(name, [threading.get_native_id(), 0])
            TIMES[name][1] += getattr(work, name)(20_000_000)


sys.stdout.write(f"ready {os.getpid()}\n")
sys.stdout.flush()
sys.stdin.readline()
start_ns = time.monotonic_ns()
globals()[sys.argv[1]](*sys.argv[2:])
times = {name: {"tid": tid, "cpu_ns": cpu_ns} for name, (tid, cpu_ns) in TIMES.items()}
truth = {"start_ns": start_ns, "end_ns": time.monotonic_ns(), "functions": times}
sys.stdout.write(json.dumps(truth) + "\n")
sys.stdout.flush()
sys.stdin.readline()
