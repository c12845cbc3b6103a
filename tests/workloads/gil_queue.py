"""Threads that want the GIL while one holds it for known times; each measures how long it waits.

--holds times the holder keeps the GIL for --hold-ms of CPU time, in C, and sleeps --pause-ms
without it in between. --waiters threads want it all the time: they give it away and take it back
until the holder is done. --lock: one more thread waits for a threading.Lock that is held as long:
that is no wait for the GIL. --library is gil_holder.c, compiled. Runs on any Python since 3.9.

Truth: start_ns, end_ns; `threads`: per thread name, tid, since_ns and until_ns, wants (how often it
took the GIL back in between), waited_ns (how long that took), and waits, the [begin, end] of those
that took longer than 0.1 ms; all in ns of CLOCK_MONOTONIC. lock_ns: how long the thread with the
lock waited for that.
"""

from __future__ import annotations

import ctypes
import threading
import time
from typing import TYPE_CHECKING

from handshake import begin, finish, parser

if TYPE_CHECKING:
    from collections.abc import Callable

arguments = parser(__doc__)
arguments.add_argument("--library", required=True)
arguments.add_argument("--holds", type=int, default=20)
arguments.add_argument("--hold-ms", type=float, default=20.0)
arguments.add_argument("--pause-ms", type=float, default=5.0)
arguments.add_argument("--waiters", type=int, default=1)
arguments.add_argument("--lock", action="store_true")
options = arguments.parse_args()
holder = ctypes.PyDLL(options.library)
reported = []
is_over = threading.Event()
all_there = threading.Barrier(options.waiters + 1)


class Wait(ctypes.Structure):
    _fields_ = [("begin_ns", ctypes.c_int64), ("end_ns", ctypes.c_int64)]


class Told(ctypes.Structure):
    _fields_ = [
        ("wants", ctypes.c_int64),
        ("waited_ns", ctypes.c_int64),
        ("kept", ctypes.c_int64),
        ("waits", Wait * 4000),
    ]


def tell(name: str, function: Callable[[object], None]) -> None:
    """Add what a thread measures in a call into the library."""
    measured = Told()
    # How a thread gets the GIL for the first time is not measured: nobody holds it for long yet.
    all_there.wait()
    since_ns = time.monotonic_ns()
    function(ctypes.byref(measured))
    reported.append(
        {
            "name": name,
            "tid": threading.get_native_id(),
            "since_ns": since_ns,
            "until_ns": time.monotonic_ns(),
            "wants": measured.wants,
            "waited_ns": measured.waited_ns,
            "waits": [(w.begin_ns, w.end_ns) for w in measured.waits[: measured.kept]],
        }
    )


def hold() -> None:
    """Hold the GIL and let go, in turn."""
    given = [options.holds, int(options.hold_ms * 1e6), int(options.pause_ms * 1e6)]
    tell("holder", lambda place: holder.gil_hold(*map(ctypes.c_int64, given), place))
    is_over.set()


lock = threading.Lock()
locked_ns = [0]


def wait_for_lock() -> None:
    """Wait for the lock that the main thread holds."""
    start_ns = time.monotonic_ns()
    with lock:
        locked_ns[0] = time.monotonic_ns() - start_ns


begin(options)
start_ns = time.monotonic_ns()
threads = [
    threading.Thread(target=tell, args=(f"waiter-{i}", holder.gil_want))
    for i in range(options.waiters)
]
threads.append(threading.Thread(target=hold))
if options.lock:
    lock.acquire()
    threads.append(threading.Thread(target=wait_for_lock))
for thread in reversed(threads):
    thread.start()
is_over.wait()
if options.lock:
    lock.release()
for thread in threads:
    thread.join()
finish(
    options,
    start_ns=start_ns,
    end_ns=time.monotonic_ns(),
    threads=reported,
    lock_ns=locked_ns[0],
)
