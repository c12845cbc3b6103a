"""Two threads that pass items through two queues of length 1: hardly anything but switches.

Tells, as one JSON list, the CPU time in ns of each batch of rounds.
"""

import json
import queue
import sys
import threading
import time

ROUNDS, BATCHES = 400, 100


def main() -> None:
    """Pass the items."""
    there: queue.Queue[int | None] = queue.Queue(1)
    back: queue.Queue[int | None] = queue.Queue(1)

    def send_back() -> None:
        while (item := there.get()) is not None:
            back.put(item)

    other = threading.Thread(target=send_back)
    other.start()
    times = []
    for _ in range(BATCHES):
        before_ns = time.process_time_ns()
        for item in range(ROUNDS):
            there.put(item)
            back.get()
        times.append(time.process_time_ns() - before_ns)
    there.put(None)
    other.join()
    sys.stdout.write(json.dumps(times) + "\n")


if __name__ == "__main__":
    main()
