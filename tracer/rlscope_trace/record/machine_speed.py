"""How fast this machine is, measured in 50 ms: what a comparison normalises times by."""

from __future__ import annotations

import select
import statistics
import time
import zlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


_CPUINFO = Path("/proc/cpuinfo")
_CPU_NUMBERS = ("CPU implementer", "CPU part", "CPU variant")


def cpu_model(path: Path = _CPUINFO) -> str:
    """Return what the CPU calls itself; on aarch64 its numbers, as it has no name there."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            found.setdefault(name.strip(), value.strip())
    numbers = (f"{name} {found[name]}" for name in _CPU_NUMBERS if name in found)
    return found.get("model name") or ", ".join(numbers) or "not known"


def probe_machine() -> dict[str, float | str | None]:
    """Measure how fast this machine is, in less than 0.1 s; best of three where work is timed.

    single_core_mb_s: deflate of a fixed text, by CPU time, so that neighbours count for little;
    deflate: the version of what did it, as others are faster or slower. memory_mb_s: copying
    16 MiB; wake_up_ns: by how much a sleep of 0.1 ms is late, the median. cpu: the model.
    launch_ns and copy_mb_s need a GPU: not measured.
    """
    text = b"".join(b"%d %x;" % (n * n, n * 2654435761 % 2**32) for n in range(8000))
    single_s = _best(partial(zlib.compress, text, 6), time.thread_time_ns)
    size = 16 << 20
    source, copy = bytearray(size), bytearray(size)

    def move() -> None:
        copy[:] = source

    memory_s = _best(move, time.thread_time_ns)
    return {
        "cpu": cpu_model(),
        "deflate": zlib.ZLIB_RUNTIME_VERSION,
        "single_core_mb_s": round(len(text) / single_s / 1e6, 2),
        "memory_mb_s": round(size / memory_s / 1e6),
        "wake_up_ns": round(statistics.median(_late_ns() for _ in range(51))),
        "launch_ns": None,
        "copy_mb_s": None,
    }


def _best(work: Callable[[], object], clock_ns: Callable[[], int]) -> float:
    times = []
    for _ in range(3):
        start_ns = clock_ns()
        work()
        times.append((clock_ns() - start_ns) / 1e9)
    # A clock that ticks coarsely may show nothing.
    return max(min(times), 1e-6)


def _late_ns() -> int:
    start_ns = time.perf_counter_ns()
    select.select([], [], [], 1e-4)
    return time.perf_counter_ns() - start_ns - 100_000
