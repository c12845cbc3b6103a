"""Loads and unloads code, forks, execs and crashes children, and checks its results.

It goes on for --seconds; with --seconds=0 until the next line on stdin. All at once: a thread that
opens and closes libraries (--libraries, copies of native modules and others) by dlopen; the main
thread, which steps native_cartpole and compares with what the first run gave; children that fork
again, exec, crash by SIGSEGV and SIGABRT, or step as well.

Truth: wrong (results that differed), steps, opened (libraries), and `children`: how they ended ->
how many; every one must have ended as it was meant to.
"""

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections import Counter

import native_cartpole as cartpole
from handshake import begin, finish, parser

arguments = parser(__doc__)
arguments.add_argument("--seconds", type=float, default=3.0)
arguments.add_argument("--libraries", default="")
options = arguments.parse_args()
children: Counter[str] = Counter()
totals: Counter[str] = Counter()
libc = ctypes.CDLL(None)
libc.dlclose.argtypes = [ctypes.c_void_p]


def trajectory() -> "list[tuple[float, ...]]":
    cartpole.reset(3)
    return [cartpole.step(index % 3 == 0, 20) for index in range(40)]


def open_and_close(over: threading.Event) -> None:
    paths = options.libraries.split(":") if options.libraries else []
    while paths and not over.is_set():
        for path in paths:
            handle = ctypes.PyDLL(path)._handle
            libc.dlclose(handle)
            totals["opened"] += 1


def fork_again() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if trajectory() == expected else 9)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def replace() -> None:
    os.execv(
        sys.executable, [sys.executable, "-S", "-c", "import native_cartpole as c; c.reset(1)"]
    )


def crash(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    cartpole.step(1, 1000)
    os.kill(os.getpid(), number)


def step_here() -> None:
    os._exit(0 if trajectory() == expected else 9)


KINDS = {
    "forked again": (fork_again, 0),
    "replaced": (replace, 0),
    "segv": (lambda: crash(signal.SIGSEGV), -signal.SIGSEGV),
    "abort": (lambda: crash(signal.SIGABRT), -signal.SIGABRT),
    "stepped": (step_here, 0),
}


def one_of_each() -> None:
    started = []
    for name, (work, meant) in KINDS.items():
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(8)
        started.append((name, pid, meant))
    for name, pid, meant in started:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        children[name if code == meant else f"{name}: {code}"] += 1


def is_to_end() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


expected = trajectory()
begin(options)
over = threading.Event()
opener = threading.Thread(target=open_and_close, args=(over,))
opener.start()
end_s = time.monotonic() + options.seconds
wrong = 0
while time.monotonic() < end_s if options.seconds else not is_to_end():
    for _ in range(50):
        wrong += trajectory() != expected
        totals["steps"] += 40
    one_of_each()
over.set()
opener.join()
finish(options, wrong=wrong, **totals, children=dict(children))
