"""Work that goes on until a test says that it watches: probes come only after the code is loaded.

A recorder finds native functions in the memory of a running program, tries them, and may drop some
again. So the truth begins later: `warm_up(options, work)` says `ready PID` and repeats `work()`
until a line comes on stdin, at most for a minute of CPU time.
"""

import argparse
import os
import select
import sys
import time
from typing import TYPE_CHECKING

from handshake import say

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_NS = 60_000_000_000


def warm_up(options: argparse.Namespace, work: "Callable[[], object]") -> None:
    """Repeat `work()` until the test goes on, once if it does not ask for that."""
    if not options.wait:
        work()
        return
    say(f"ready {os.getpid()}")
    end_ns = time.process_time_ns() + _MOST_NS
    while not select.select([sys.stdin], [], [], 0)[0]:
        if time.process_time_ns() > end_ns:
            raise SystemExit("nobody said go within a minute of CPU time")
        work()
    sys.stdin.readline()
