"""Calls native_cartpole.step over and over, and writes down when.

The module is warmed up until the first line on stdin; then calls are timed until the next one. With
`--log FILE`, the file gets two 64-bit numbers per call: CLOCK_MONOTONIC just before and just after
it. Truth: `calls`, exact; start_ns, end_ns.
"""

import os
import select
import sys
import time
from array import array

import native_cartpole as cartpole
from handshake import finish, parser
from warm_up import warm_up

arguments = parser(__doc__)
arguments.add_argument("--log", required=True)
arguments.add_argument("--substeps", type=int, default=1000)
options = arguments.parse_args()


def touch_all() -> None:
    """Call what is going to be timed, and leave the CPU now and then."""
    cartpole.step(1, options.substeps)
    time.sleep(0.001)


warm_up(options, touch_all)
times = array("q")
now = time.monotonic_ns
start_ns = now()
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(100):
        before_ns = now()
        cartpole.step(1, options.substeps)
        times.append(before_ns)
        times.append(now())
end_ns = now()
sys.stdin.readline()
with open(options.log, "wb") as file:  # noqa: PTH123 - for Python before 3.10 as well
    times.tofile(file)
    os.fsync(file.fileno())
finish(options, start_ns=start_ns, end_ns=end_ns, calls=len(times) // 2)
