"""Starts N threads at once, each named `worker-I`, each of which sleeps K times for M ms.

Truth: `threads[i]` = name, tid, sleeps and the thread's own schedstat just before it ended. The
main thread only starts and joins. `stolen_ns`: what a hypervisor had of all CPUs meanwhile.
"""

import ctypes
import threading
import time
from typing import Any

from handshake import begin, finish, parser, schedstat, stolen_ns

PR_SET_NAME = 15

arguments = parser(__doc__)
arguments.add_argument("--threads", type=int, default=5)
arguments.add_argument("--sleeps", type=int, default=10)
arguments.add_argument("--sleep-ms", type=float, default=5.0)
options = arguments.parse_args()
reported: list[dict[str, Any]] = []


def work(name: str) -> None:
    """Take the name, sleep, and tell."""
    # Before 3.14 threading.Thread(name=) stays inside Python: the OS kernel is told here.
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())
    for _ in range(options.sleeps):
        time.sleep(options.sleep_ms / 1000)
    reported.append(
        {"name": name, "tid": threading.get_native_id(), "sleeps": options.sleeps, **schedstat()}
    )


begin(options)
stolen_before_ns = stolen_ns()
started = [
    threading.Thread(target=work, args=(f"worker-{index}",)) for index in range(options.threads)
]
for thread in started:
    thread.start()
for thread in started:
    thread.join()
finish(
    options,
    threads=sorted(reported, key=lambda thread: thread["name"]),
    stolen_ns=stolen_ns() - stolen_before_ns,
)
