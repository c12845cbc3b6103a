"""Spins and computes in turn, in C and by a known share of CPU time; --library is spin_share.c.

Truth, of each of --threads threads: tid, and spin_ns and compute_ns of CPU time; start_ns, end_ns.
The range `window` (NVTX) on the main thread holds its work.
"""

import ctypes
import threading
import time
from typing import Any

import nvtx
from handshake import finish, parser
from warm_up import warm_up

arguments = parser(__doc__)
arguments.add_argument("--library", required=True)
arguments.add_argument("--seconds", type=float, default=2.0)
arguments.add_argument("--percent", type=int, default=40)
arguments.add_argument("--threads", type=int, default=1)
options = arguments.parse_args()
# Not PyDLL: the GIL is free meanwhile, so that threads spin at the same time.
library = ctypes.CDLL(options.library)
for function in (library.spin_for, library.compute_for):
    function.argtypes, function.restype = [ctypes.c_int64], ctypes.c_int64
reported: list[dict[str, Any]] = []


def turn() -> tuple[int, int]:
    """Spin and compute for 10 ms of CPU time."""
    spin_ns = library.spin_for(options.percent * 100_000)
    return spin_ns, library.compute_for((100 - options.percent) * 100_000)


def work() -> None:
    """Take turns for the given CPU time, then tell."""
    spin_ns = compute_ns = 0
    while spin_ns + compute_ns < options.seconds * 1e9:
        spun_ns, computed_ns = turn()
        spin_ns += spun_ns
        compute_ns += computed_ns
    reported.append(
        {"tid": threading.get_native_id(), "spin_ns": spin_ns, "compute_ns": compute_ns}
    )


warm_up(options, turn)
others = [threading.Thread(target=work) for _ in range(options.threads - 1)]
start_ns = time.monotonic_ns()
for thread in others:
    thread.start()
with nvtx.annotate("window"):
    work()
for thread in others:
    thread.join()
finish(options, start_ns=start_ns, end_ns=time.monotonic_ns(), threads=reported)
