"""The process whose loops are measured: run by its path, as `child.py LIBRARY CPU [batch]`.

It takes one JSON object per line from stdin and answers each with one on stdout; its end is that
of its stdin. It imports nothing of this package, so that it is as small as it can be.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_SITES = 16
# So that whoever reads the records of a batch keeps up.
_PAUSE_S = 0.001


class Loops:
    """The commands, by name; `lib` is librlscope_loops.so."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._lib = ctypes.CDLL(library)
        self._lib.rls_site.restype = ctypes.c_void_p
        self._lib.rls_find_gaps.restype = ctypes.c_long
        for loop in ("launches", "unary", "calls", "ranges", "wakes", "switches"):
            getattr(self._lib, f"rls_time_{loop}").restype = ctypes.c_double
        self._python_range: Callable[[int], None] | None = None
        self._hook: Callable[[], None] | None = None
        self._cuda: Any = None
        self._stream: Any = None

    def where(self) -> dict[str, object]:
        """Return the offsets of the sites in the file of the library."""
        addresses = [self._lib.rls_site(index) for index in range(_SITES)]
        real = os.path.realpath(self._library)
        for line in Path("/proc/self/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            start, end = (int(word, 16) for word in fields[0].split("-"))
            if start <= addresses[0] < end:
                offset = int(fields[2], 16) - start
                return {"path": real, "offsets": [address + offset for address in addresses]}
        raise RuntimeError("the library is not mapped")

    def calls(
        self, plain: list[int], sites: list[int], turns: int, pairs: int
    ) -> dict[str, object]:
        """Return ns per turn of `pairs` batches that call plain, and sites."""
        off: list[float] = []
        on: list[float] = []
        for pair in range(pairs):
            for which, times in ((plain, off), (sites, on))[:: 1 if pair % 2 else -1]:
                times.append(self._lib.rls_time_calls(which[0], which[1], ctypes.c_long(turns)))
        return {"off": off, "on": on}

    def wakes(self, rounds: int, batches: int) -> dict[str, object]:
        """Return ns per wakeup of each batch."""
        return {"ns": [self._lib.rls_time_wakes(ctypes.c_long(rounds)) for _ in range(batches)]}

    def switches(self, trips: int, batches: int) -> dict[str, object]:
        """Return ns per round trip of each batch, and how often the CPU was left per trip."""
        times, left = [], []
        for _ in range(batches):
            count = ctypes.c_long()
            times.append(self._lib.rls_time_switches(ctypes.c_long(trips), ctypes.byref(count)))
            left.append(count.value / trips)
        return {"ns": times, "left": left}

    def heard(self) -> dict[str, object]:
        """Tell whether an NVTX tool listens to this process."""
        return {"heard": bool(self._lib.rls_is_heard())}

    def ranges(self, client: str, count: int, batches: int) -> dict[str, object]:
        """Return ns per range of each batch, and between which times of CLOCK_MONOTONIC."""
        batch = self._c_batch if client == "c" else self._python_batch
        batch(count)
        time.sleep(_PAUSE_S)
        start_ns = time.monotonic_ns()
        times = []
        for _ in range(batches):
            times.append(batch(count))
            time.sleep(_PAUSE_S)
        return {"ns": times, "start_ns": start_ns, "end_ns": time.monotonic_ns()}

    def _c_batch(self, count: int) -> float:
        return float(self._lib.rls_time_ranges(ctypes.c_long(count)))

    def _python_batch(self, count: int) -> float:
        if self._python_range is None:
            self._python_range = _annotated()
        before = time.thread_time_ns()
        self._python_range(count)
        return (time.thread_time_ns() - before) / count

    def hooks(self, folder: str, count: int, pairs: int) -> dict[str, object]:
        """Return ns per call of a function, and of one with the boundary of a phase around it."""
        if self._hook is None:
            self._hook = _hooked(folder)
        start_ns = time.monotonic_ns()
        off, on = [], []
        for _ in range(pairs):
            off.append(_per_call(_nothing, count))
            on.append(_per_call(self._hook, count))
            time.sleep(_PAUSE_S)
        return {"off": off, "on": on, "start_ns": start_ns, "end_ns": time.monotonic_ns()}

    def cuda_open(self) -> dict[str, object]:
        """Make a context on the first GPU."""
        self._cuda = importlib.import_module("cuda_driver").CudaDriver()
        self._stream = self._cuda.stream()
        return {}

    def cuda_calls(self, count: int, batches: int) -> dict[str, object]:
        """Return ns per launch of a kernel, and per call that frees no memory."""
        launch, free = map(self._cuda.function, ("cuLaunchKernel", "cuMemFree"))
        number = ctypes.c_long(count)
        launches, calls = [], []
        for _ in range(batches):
            launches.append(
                self._lib.rls_time_launches(launch, self._cuda.nothing, self._stream, number)
            )
            self._cuda.synchronize(self._stream)
            calls.append(self._lib.rls_time_unary(free, None, number))
            time.sleep(_PAUSE_S)
        if min(launches) < 0:
            raise RuntimeError("cuLaunchKernel failed")
        return {"launch": launches, "call": calls}

    def gaps(self, length_ms: float) -> dict[str, object]:
        """Return for how many ns this thread was off a loop that takes so long, each time."""
        room = int(length_ms * 1000)
        found = (ctypes.c_double * room)()
        length_ns = ctypes.c_double(length_ms * 1e6)
        count = self._lib.rls_find_gaps(length_ns, found, ctypes.c_long(room))
        return {"ns": found[:count]}


def _nothing() -> None:
    """Do nothing: what is hooked."""


def _per_call(function: Callable[[], None], count: int) -> float:
    before = time.thread_time_ns()
    for _ in range(count):
        function()
    return (time.thread_time_ns() - before) / count


def _annotated() -> Callable[[int], None]:
    """Return what marks ranges by the package nvtx, as users do."""
    annotation = importlib.import_module("nvtx").annotate("python", domain="rlscope calibration")

    def mark(count: int) -> None:
        for _ in range(count):
            with annotation:
                pass

    return mark


def _hooked(folder: str) -> Callable[[], None]:
    """Return _nothing as the automatic phases would hook the step of an environment."""
    sys.path.insert(0, folder)
    phases = importlib.import_module("rlscope_phases")
    core = importlib.import_module("rlscope_phases.core")
    importlib.import_module("rlscope_phases.starting").start()
    if not importlib.import_module("rlscope_phases.listener").is_on():
        raise RuntimeError(phases.status)
    hook: Callable[[], None] = core.native.Hook(_nothing, core.STEP)
    return hook


def _why(error: Exception) -> object:
    """Return an error as calibration has it, where it is one that it knows."""
    return getattr(error, "why", None)


def main() -> None:
    """Answer until stdin ends."""
    library, cpu, *flags = sys.argv[1:]
    # Ctrl-C is for the recorder, which then closes our stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setaffinity(0, {int(cpu)})
    if "batch" in flags:
        # Whoever wakes another thread keeps the CPU until it waits itself.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    loops = Loops(library)
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        try:
            answer = getattr(loops, command.pop("do"))(**command)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is an answer
            answer = {"error": f"{type(error).__name__}: {error}", "why": _why(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
