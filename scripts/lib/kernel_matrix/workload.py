"""The program that is traced in the virtual machines of scripts/kernel_matrix.

It sleeps in children, talks with one through a pipe, runs a thread and ends as another program.
Which process was which stands in TRUTH_FILE.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SLEEPS = 25
SLEEP_MS = 10
ROUNDS = 8
EXIT_CODE = 7
# What runs on the sleeper's CPU, so that the timer interrupts: nothing, user code, a system call.
LOADS = ("idle", "user", "syscall")
TRUTH_FILE = Path("/tmp/truth.json")


def fork_child(run: Callable[[], None]) -> int:
    """Fork a child that calls `run` and ends with EXIT_CODE; return its pid."""
    pid = os.fork()
    if pid == 0:
        run()
        os._exit(EXIT_CODE)
    return pid


def occupy(load: str) -> None:
    """Take the first CPU until killed, in user code or in one long system call after another."""
    os.sched_setaffinity(0, {0})
    with Path("/dev/zero").open("rb", buffering=0) as zeros:
        block = bytearray(1 << 18)
        while True:
            if load == "syscall":
                zeros.readinto(block)


def sleep_often() -> None:
    """Sleep on the first CPU."""
    os.sched_setaffinity(0, {0})
    for _ in range(SLEEPS):
        time.sleep(SLEEP_MS / 1000)


def sleep_under(load: str) -> int:
    """Run a sleeping child while `load` has its CPU; return its pid."""
    spinner = fork_child(lambda: occupy(load)) if load != "idle" else 0
    sleeper = fork_child(sleep_often)
    os.waitpid(sleeper, 0)
    if spinner:
        os.kill(spinner, signal.SIGKILL)
        os.waitpid(spinner, 0)
    return sleeper


def write_to_sleeper(fd: int, pid: int) -> None:
    """Write one byte once `pid` sleeps, so that the byte wakes it."""
    stat = Path(f"/proc/{pid}/stat")
    while stat.read_text().rpartition(") ")[2][0] != "S":
        os.sched_yield()
    os.write(fd, b".")


def talk() -> int:
    """Exchange bytes with a child, each waiting for the other; return its pid."""
    question_read, question_write = os.pipe()
    answer_read, answer_write = os.pipe()
    asker = os.getpid()

    def answer() -> None:
        for _ in range(ROUNDS):
            os.read(question_read, 1)
            write_to_sleeper(answer_write, asker)

    partner = fork_child(answer)
    for _ in range(ROUNDS):
        write_to_sleeper(question_write, partner)
        os.read(answer_read, 1)
    os.waitpid(partner, 0)
    return partner


def workload() -> None:
    """Be the traced program, tell the truth, and end as another program."""
    truth: dict[str, int] = {"pid": os.getpid()}
    for load in LOADS:
        truth[load] = sleep_under(load)
    truth["partner"] = talk()
    tids: list[int] = []
    thread = threading.Thread(target=lambda: tids.append(threading.get_native_id()))
    thread.start()
    thread.join()
    truth["thread"] = tids[0]
    TRUTH_FILE.write_text(json.dumps(truth))
    os.execv("/bin/busybox", ["busybox", "true"])


if __name__ == "__main__":
    workload()
