"""Launches so many kernels and tells how many, when, and from which threads."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

from gpu import CudaDriver, CudaError, finish, paced, tid, wait_for_word

COPY_BYTES = 1 << 20
# Launches between two waits, so that no queue fills up.
BATCH = 500


def main() -> None:
    """Do what the options say."""
    options = parse()
    try:
        driver = CudaDriver()
    except CudaError as error:
        sys.exit(str(error))
    if options.wait:
        wait_for_word()
    start_ns = time.monotonic_ns()
    tids = launch_from_threads(driver, options)
    copies = copy(driver, options.copies)
    child = fork(options.fork)
    if options.end != "kill":
        driver.call("cuCtxSynchronize")
    end_ns = time.monotonic_ns()
    reported = {
        "launches": options.count * options.threads, "copies": copies, "tids": tids,
        "start_ns": start_ns, "end_ns": end_ns, "child_exit": child, "pid": os.getpid(),
    }  # fmt: skip
    finish(**reported)
    if options.end == "os_exit":
        os._exit(0)
    if options.end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="launches of each thread")
    parser.add_argument("--rate", type=float, default=0, help="per second and thread; 0: no pause")
    parser.add_argument("--threads", type=int, default=1, help="each with a stream of its own")
    parser.add_argument("--spin-ns", type=int, help="how long a kernel takes; left out: nothing")
    parser.add_argument("--copies", type=int, default=0, help="to the GPU and back, and a memset")
    parser.add_argument("--fork", action="store_true", help="a child, which does nothing")
    parser.add_argument("--end", choices=("return", "os_exit", "kill"), default="return")
    parser.add_argument("--wait", action="store_true", help="for a line on stdin before the first")
    parser.add_argument("--tell", type=Path, help="write there how many were launched so far")
    return parser.parse_args()


def launch_from_threads(driver: CudaDriver, options: argparse.Namespace) -> list[int]:
    """Launch; return the ids of the threads that did."""
    tids: list[int] = []

    def work() -> None:
        driver.enter()
        tids.append(tid())
        stream = driver.stream()
        for number in paced(options.count, options.rate):
            driver.launch(stream, options.spin_ns)
            if number % BATCH == BATCH - 1:
                driver.synchronize(stream)
                if options.tell:
                    options.tell.write_text(f"{number + 1}")
        if options.end != "kill":
            driver.synchronize(stream)

    if options.threads == 1:
        work()
        return tids
    threads = [threading.Thread(target=work) for _ in range(options.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tids


def copy(driver: CudaDriver, count: int) -> int:
    """Copy to the GPU and back, and set, so many times; return how many of each there were."""
    if count:
        memory, stream = driver.allocate(COPY_BYTES), driver.stream()
        host = (ctypes.c_char * COPY_BYTES)()
        for _ in range(count):
            driver.copy(memory, host, stream)
            driver.clear(memory, COPY_BYTES, stream)
        driver.synchronize(stream)
    return count


def fork(wanted: bool) -> int | None:
    """Make a child that ends at once; return its exit code."""
    if not wanted:
        return None
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    main()
