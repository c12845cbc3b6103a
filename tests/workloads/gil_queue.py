"""Threads that want the GIL while one holds it for known times; each measures how long it waits.

--holds times the holder keeps the GIL for --hold-ms of CPU time, in C, and sleeps --pause-ms
without it in between. --waiters threads want it all the time: they give it away and take it back
until the holder is done. --lock: one more thread waits for a threading.Lock that is held as long:
that is no wait for the GIL. --library is gil_holder.c, compiled. Runs on any Python since 3.9.

Truth: start_ns, end_ns; `threads`: per thread name, tid, wants (how often it took the GIL back) and
waits, the [begin, end] of those that took longer than 0.1 ms, in ns of CLOCK_MONOTONIC, and the sum
of all as waited_ns. lock_ns: how long the thread with the lock waited for that.
"""

from __future__ import annotations

import ctypes
import threading
import time

from handshake import begin, finish, parser

arguments = parser(__doc__)
arguments.add_argument("--library", required=True)
arguments.add_argument("--holds", type=int, default=20)
arguments.add_argument("--hold-ms", type=float, default=20.0)
arguments.add_argument("--pause-ms", type=float, default=5.0)
arguments.add_argument("--waiters", type=int, default=1)
arguments.add_argument("--lock", action="store_true")
options = arguments.parse_args()
holder = ctypes.PyDLL(options.library)
NOTABLE_NS = 100_000
told = []
is_over = threading.Event()


class Wait(ctypes.Structure):
    _fields_ = [("begin_ns", ctypes.c_int64), ("end_ns", ctypes.c_int64)]


def tell(name: str, waits: list[Wait]) -> None:
    """Add what a thread measured."""
    spans = [(wait.begin_ns, wait.end_ns) for wait in waits]
    told.append(
        {
            "name": name,
            "tid": threading.get_native_id(),
            "wants": len(spans),
            "waits": [span for span in spans if span[1] - span[0] > NOTABLE_NS],
            "waited_ns": sum(end - begin for begin, end in spans),
        }
    )


def hold() -> None:
    """Hold the GIL and let go, in turn."""
    waits = []
    for _ in range(options.holds):
        holder.gil_hold(ctypes.c_int64(int(options.hold_ms * 1e6)))
        waits.append(Wait())
        holder.gil_pause(ctypes.c_int64(int(options.pause_ms * 1e6)), ctypes.byref(waits[-1]))
    is_over.set()
    tell("holder", waits)


def want(name: str) -> None:
    """Want the GIL until the holder is done, with some own work in between."""
    waits = []
    while not is_over.is_set():
        waits.append(Wait())
        holder.gil_want(ctypes.byref(waits[-1]), ctypes.c_int64(1))
        sum(range(1000))
    tell(name, waits)


lock = threading.Lock()
locked_ns = [0]


def wait_for_lock() -> None:
    """Wait for the lock that the main thread holds."""
    start_ns = time.monotonic_ns()
    with lock:
        locked_ns[0] = time.monotonic_ns() - start_ns


begin(options)
start_ns = time.monotonic_ns()
threads = [threading.Thread(target=want, args=(f"waiter-{i}",)) for i in range(options.waiters)]
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
    threads=told,
    lock_ns=locked_ns[0],
)
