"""Small operations of PyTorch with as many threads as CPUs, next to programs that want these too.

The threads of libgomp wait for each other in a loop around `pause`; where they wait for one that
has no CPU, that is most of what they do. --threads 1, or OMP_WAIT_POLICY=passive in the
environment, show what the same operations take without it. More threads than CPUs hide it: then
libgomp gives up the CPU soon.

Truth, between start_ns and end_ns: cpu_ns (of the process), operations, and threads.
"""

import os
import signal
import subprocess
import sys
import time

from handshake import finish, parser
from warm_up import warm_up

arguments = parser(__doc__)
arguments.add_argument("--threads", type=int, default=os.cpu_count() or 1)
arguments.add_argument("--seconds", type=float, default=3.0)
arguments.add_argument("--operations", type=int, default=0)
options = arguments.parse_args()

import torch  # noqa: E402 - after the arguments: libgomp reads its environment when it is loaded

torch.set_num_threads(options.threads)
# Just above the size from which PyTorch shares an element-wise operation among its threads.
left, right = torch.ones(70_000), torch.ones(70_000)


def operate(count: int = 20) -> int:
    for _ in range(count):
        torch.add(left, right, out=left)
        left.tanh_()
    return count


COMPETITOR = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10000))"
competitors = [
    subprocess.Popen([sys.executable, "-c", COMPETITOR]) for _ in range(os.cpu_count() or 1)
]
try:
    warm_up(options, operate)
    start_ns, start_cpu_ns, done = time.monotonic_ns(), time.process_time_ns(), 0
    while (
        done < options.operations
        if options.operations
        else time.process_time_ns() - start_cpu_ns < options.seconds * 1e9
    ):
        done += operate()
    cpu_ns, end_ns = time.process_time_ns() - start_cpu_ns, time.monotonic_ns()
finally:
    for competitor in competitors:
        competitor.send_signal(signal.SIGKILL)
        competitor.wait()
finish(
    options,
    start_ns=start_ns,
    end_ns=end_ns,
    cpu_ns=cpu_ns,
    operations=done,
    threads=options.threads,
)
