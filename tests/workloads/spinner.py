"""Burns CPU for S seconds in T threads, outside the GIL so that they run at the same time.

Truth: `threads[i]` = tid and what the thread itself measured around its work: `cpu_ns` by
CLOCK_THREAD_CPUTIME_ID, `wall_ns`, and its schedstat before and after. With fewer CPUs than threads
the rest of the wall time was spent runnable.
"""

import hashlib
import threading
import time
from typing import Any

from handshake import begin, finish, parser, schedstat

# SHA-256 of more than 2047 bytes releases the GIL: about 1 ms a call.
BLOCK = b"x" * 1_000_000

arguments = parser(__doc__)
arguments.add_argument("--seconds", type=float, default=1.0)
arguments.add_argument("--threads", type=int, default=1)
options = arguments.parse_args()
reported: list[dict[str, Any]] = []


def work() -> None:
    """Hash until the time is over, then tell."""
    before, cpu_ns, start_ns = schedstat(), time.thread_time_ns(), time.monotonic_ns()
    while time.monotonic_ns() - start_ns < options.seconds * 1e9:
        hashlib.sha256(BLOCK).digest()
    reported.append(
        {
            "tid": threading.get_native_id(),
            "start_ns": start_ns,
            "wall_ns": time.monotonic_ns() - start_ns,
            "cpu_ns": time.thread_time_ns() - cpu_ns,
            "before": before,
            "after": schedstat(),
        }
    )


begin(options)
started = [threading.Thread(target=work) for _ in range(options.threads)]
for thread in started:
    thread.start()
for thread in started:
    thread.join()
finish(options, threads=reported)
