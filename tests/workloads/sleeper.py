"""Sleeps N times for M ms in its main thread.

Truth: `sleeps` intervals of at least `sleep_ms` each, off the CPU and sleeping; `slept_ns` is what
the clock showed around them, so the trace may hold at most that.
"""

import time

from handshake import begin, finish, parser

arguments = parser(__doc__)
arguments.add_argument("--sleeps", type=int, default=23)
arguments.add_argument("--sleep-ms", type=float, default=10.0)
options = arguments.parse_args()
begin(options)
start_ns = time.monotonic_ns()
for _ in range(options.sleeps):
    time.sleep(options.sleep_ms / 1000)
end_ns = time.monotonic_ns()
finish(
    options,
    sleeps=options.sleeps,
    sleep_ms=options.sleep_ms,
    start_ns=start_ns,
    end_ns=end_ns,
    slept_ns=end_ns - start_ns,
)
