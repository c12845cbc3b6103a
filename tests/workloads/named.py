"""Processes of multiprocessing and threads with names; with --title, a process that renames itself.

Exact: `processes`, the names of multiprocessing by pid, and `threads`, those of threading by native
thread id; `title`, what the process has written over its arguments.
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

PR_SET_NAME = 15


def report(sender: Connection) -> None:
    """Tell the pid and the name of this process, and end when told so."""
    sender.send((os.getpid(), multiprocessing.current_process().name))
    sender.recv()


def start_processes(method: str) -> dict[int, str]:
    context = multiprocessing.get_context(method)
    found = {}
    started = []
    for name in (None, "actor 7"):
        here, there = context.Pipe()
        process = context.Process(target=report, args=(there,), name=name)
        process.start()
        pid, reported = here.recv()
        found[pid] = reported
        started.append((process, here))
    for process, here in started:
        here.send(None)
        process.join()
    return found


def start_threads() -> dict[int, str]:
    found = {}
    is_over = threading.Event()
    threads = [
        threading.Thread(target=is_over.wait),
        threading.Thread(target=is_over.wait, name="learner"),
        threading.Thread(target=is_over.wait, name="before"),
    ]
    for thread in threads:
        thread.start()
    threads[2].name = "after"
    for thread in threads:
        found[thread.native_id or 0] = thread.name
    is_over.set()
    for thread in threads:
        thread.join()
    return found


def set_title(title: str) -> None:
    """Write over the arguments, as the package setproctitle does, and over the thread's name."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    # arg_start and arg_end, as proc(5) counts them.
    start, end = int(fields[48 - 3]), int(fields[49 - 3])
    text = title.encode()
    if len(text) >= end - start:
        raise ValueError("the arguments are shorter than the title")
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
    ctypes.CDLL(None).prctl(PR_SET_NAME, text[:15], 0, 0, 0)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--method", choices=("fork", "spawn", "forkserver"))
    options.add_argument("--threads", action="store_true")
    options.add_argument("--title")
    args = options.parse_args()
    truth: dict[str, object] = {"pid": os.getpid()}
    if args.method:
        truth["processes"] = start_processes(args.method)
    if args.threads:
        truth["threads"] = start_threads()
    if args.title:
        set_title(args.title)
        truth["title"] = args.title
        # Nobody tells when it has been looked at: the recording ends it.
        sys.stdout.write(json.dumps(truth) + "\n")
        sys.stdout.flush()
        sys.stdin.readline()
        return
    sys.stdout.write(json.dumps(truth) + "\n")


if __name__ == "__main__":
    main()
