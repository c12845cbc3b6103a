"""Two processes on one CPU pass one byte to and fro over pipes, N round trips.

Truth: on one CPU each round trip is two switches and two wakeups; `ns_per_round_trip` is what one
cost. The child leaves with code 0.
"""

import os
import time

from handshake import begin, finish, parser

arguments = parser(__doc__)
arguments.add_argument("--round-trips", type=int, default=20_000)
arguments.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
options = arguments.parse_args()
begin(options)
os.sched_setaffinity(0, {options.cpu})
to_child, from_parent = os.pipe()
to_parent, from_child = os.pipe()
child = os.fork()
if child == 0:
    for _ in range(options.round_trips):
        os.read(to_child, 1)
        os.write(from_child, b"!")
    os._exit(0)
start_ns = time.monotonic_ns()
for _ in range(options.round_trips):
    os.write(from_parent, b"!")
    os.read(to_parent, 1)
elapsed_ns = time.monotonic_ns() - start_ns
os.waitpid(child, 0)
finish(
    options,
    round_trips=options.round_trips,
    child=child,
    cpu=options.cpu,
    elapsed_ns=elapsed_ns,
    ns_per_round_trip=elapsed_ns / options.round_trips,
)
