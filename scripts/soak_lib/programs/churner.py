"""Makes threads and processes, loads and unloads modules, marks ranges, calls: as long as asked.

About 50 rounds a second (as in worker.py), in threads and children, too. Every fifth round is that
of a new thread; every 25th that of a child, and every other child runs another program then; every
tenth a copy of the module (--copies, which are replaced by new files now and then) is loaded and
unloaded. It ends once the file --until is there. Truth: as worker.py, and threads, loaded.
"""

import argparse
import ctypes
import itertools
import json
import os
import shutil
import threading
import time
from pathlib import Path

import native_cartpole as cartpole
import nvtx

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--truth", type=Path, required=True)
parser.add_argument("--until", type=Path, required=True)
parser.add_argument("--copies", type=Path, required=True, help="a folder of its own")
options = parser.parse_args()
STEPS = 20
COPIES = 4
libc = ctypes.CDLL(None)
libc.dlclose.argtypes = [ctypes.c_void_p]
totals = {"rounds": 0, "wrong": 0, "children": 0, "failed_children": 0, "threads": 0, "loaded": 0}


def trajectory() -> "list[tuple[float, ...]]":
    cartpole.reset(3)
    return [cartpole.step(index % 3 == 0, 20) for index in range(STEPS)]


def one_round() -> None:
    with nvtx.annotate("round"), nvtx.annotate("simulation"):
        totals["wrong"] += trajectory() != expected
    totals["rounds"] += 1


def in_thread() -> None:
    thread = threading.Thread(target=one_round)
    thread.start()
    thread.join()
    totals["threads"] += 1


def in_child() -> None:
    pid = os.fork()
    if pid == 0:
        before = totals["wrong"]
        one_round()
        if totals["children"] % 2 or totals["wrong"] > before:
            os._exit(9 if totals["wrong"] > before else 0)
        os.execv("/bin/true", ["true"])
    totals["children"] += 1
    totals["failed_children"] += os.waitpid(pid, 0)[1] != 0


def load(number: int) -> None:
    path = options.copies / f"copy_{number % COPIES}.so"
    if number % 10 < COPIES or not path.exists():
        path.unlink(missing_ok=True)
        shutil.copy(cartpole.__file__, path)
    libc.dlclose(ctypes.PyDLL(str(path))._handle)
    totals["loaded"] += 1


def write(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(text)
    unfinished.replace(path)


expected = trajectory()
before = cartpole.counts()["step"]
for number in itertools.count(1):
    if number % 5 == 0:
        in_thread()
    else:
        one_round()
    if number % 25 == 0:
        in_child()
    if number % 10 == 0:
        load(number // 10)
    if options.until.exists():
        break
    time.sleep(0.02)
entered = cartpole.counts()["step"] - before
write(options.truth, json.dumps({**totals, "steps": totals["rounds"] * STEPS, "entered": entered}))
