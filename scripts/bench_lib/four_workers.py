"""A program and four workers that answer its messages, at a steady rate; prints `ready`.

usage: four_workers.py MESSAGES_PER_SECOND
"""

import os
import sys
import time
from contextlib import suppress

WORKERS = 4
PERIOD_S = 0.01


def main() -> None:
    """Exchange so many messages a second, in bursts of a hundredth of one."""
    a_burst = round(float(sys.argv[1]) * PERIOD_S)
    pipes = [(os.pipe(), os.pipe()) for _ in range(WORKERS)]
    for there, back in pipes:
        if os.fork() == 0:
            while os.read(there[0], 1):
                os.write(back[1], b"!")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    next_s = time.monotonic()
    with suppress(BrokenPipeError):
        while True:
            for number in range(a_burst):
                there, back = pipes[number % WORKERS]
                os.write(there[1], b"!")
                os.read(back[0], 1)
            next_s = max(next_s + PERIOD_S, time.monotonic())
            time.sleep(max(next_s - time.monotonic(), 0))


main()
