"""Processes on one CPU give it to each other with sched_yield for S seconds.

The highest rate of switches there is. Truth: `yields` calls over all `pids`; each leads to at
most one switch, and with two or more processes nearly every one does.
"""

import os
import time

from handshake import begin, finish, parser

arguments = parser(__doc__)
arguments.add_argument("--processes", type=int, default=2)
arguments.add_argument("--seconds", type=float, default=1.0)
arguments.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
options = arguments.parse_args()
begin(options)
os.sched_setaffinity(0, {options.cpu})
counts, write_counts = os.pipe()
end_ns = time.monotonic_ns() + int(options.seconds * 1e9)
pids = []
for _ in range(options.processes):
    child = os.fork()
    if child == 0:
        count = 0
        while time.monotonic_ns() < end_ns:
            for _ in range(100):
                os.sched_yield()
            count += 100
        os.write(write_counts, b"%d\n" % count)
        os._exit(0)
    pids.append(child)
os.close(write_counts)
for child in pids:
    os.waitpid(child, 0)
with os.fdopen(counts) as file:
    yields = sum(map(int, file))
finish(options, pids=pids, cpu=options.cpu, seconds=options.seconds, yields=yields)
