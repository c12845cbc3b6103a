"""A program that is not traced, on one CPU: busy, or asleep.

usage: neighbour.py {busy,quiet} CPU

Prints a line when it has begun; ends when its standard input does.
"""

from __future__ import annotations

import os
import select
import sys
import time

# Looked at so often whether it is to end.
_TURN_S = 0.05


def main() -> None:
    os.sched_setaffinity(0, {int(sys.argv[2])})
    is_busy = sys.argv[1] == "busy"
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 0 if is_busy else None)[0]:
        end_s = time.monotonic() + _TURN_S
        while time.monotonic() < end_s:
            pass


if __name__ == "__main__":
    main()
