"""What every small workload shares with the test that runs it: when to start, what to tell.

`--wait`: print `ready PID` and begin only at a line on stdin, so that a test can attach first.
`--hold`: after the truth, stay until another line (or the end of stdin), so that a test can still
look at the process.
The truth is the last line on stdout: one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser that knows the two options above."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--wait", action="store_true")
    made.add_argument("--hold", action="store_true")
    return made


def begin(options: argparse.Namespace) -> None:
    """Wait for the test, if it asked for that."""
    if options.wait:
        say(f"ready {os.getpid()}")
        sys.stdin.readline()


def finish(options: argparse.Namespace, **truth: object) -> None:
    """Tell the test what happened; stay if it asked for that."""
    say(json.dumps({"pid": os.getpid(), **truth}))
    if options.hold:
        sys.stdin.readline()


def say(line: str) -> None:
    """Print one line at once, also into a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def schedstat() -> dict[str, int]:
    """Return the calling thread's own account of itself, as the OS kernel keeps it."""
    account = Path("/proc/thread-self/schedstat").read_text()
    running_ns, runnable_ns, timeslices = map(int, account.split())
    return {"running_ns": running_ns, "runnable_ns": runnable_ns, "timeslices": timeslices}


def stolen_ns() -> int:
    """Return how long a hypervisor has had the CPUs, all together, in steps of a tick.

    The OS kernel leaves that out of its accounts of threads; a clock on the wall holds it.
    """
    ticks = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])
    return ticks * 10**9 // os.sysconf("SC_CLK_TCK")
