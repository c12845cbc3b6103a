"""Two threads that give each other the CPU through pipes, in turn: hardly anything but switches.

Tells, as one JSON list, the CPU time in ns of each batch of rounds.
"""

import json
import os
import sys
import threading
import time

ROUNDS, BATCHES = 400, 100


def main() -> None:
    """Pass the bytes."""
    to_read, to_write = os.pipe()
    fro_read, fro_write = os.pipe()

    def send_back() -> None:
        while os.read(to_read, 1) == b"x":
            os.write(fro_write, b"x")

    other = threading.Thread(target=send_back)
    other.start()
    times = []
    for _ in range(BATCHES):
        before_ns = time.process_time_ns()
        for _ in range(ROUNDS):
            os.write(to_write, b"x")
            os.read(fro_read, 1)
        times.append(time.process_time_ns() - before_ns)
    os.write(to_write, b"q")
    other.join()
    sys.stdout.write(json.dumps(times) + "\n")


if __name__ == "__main__":
    main()
