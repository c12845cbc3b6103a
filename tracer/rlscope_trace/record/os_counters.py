"""Reads once a second what the OS kernel counts of memory, the CPU quota and energy.

The target notices nothing, and what cannot be read is not there. A reading takes 15 us, so of many
processes a few are read at a time, in turn.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace.procfs import split_stat
from rlscope_trace.record.cgroups import quota_folders
from rlscope_trace.record.package_energy import PackageEnergy
from rlscope_trace.spool.counter_file import CounterFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

INTERVAL_NS = 1_000_000_000
# As many processes are read at a time; all of them when the recording ends, up to the second.
_AT_ONCE, _AT_END = 4, 256
# The file of the whole machine is long: it is read every so many times.
_SWAP_EVERY = 5
_PRESSURE = Path("/proc/pressure/memory")
_VMSTAT = Path("/proc/vmstat")
# Names of cpu.stat, and ours; of version 1 in ns, of version 2 in us.
_QUOTA_COUNTS = {
    "nr_periods": ("quota_periods", 1), "nr_throttled": ("quota_periods_throttled", 1),
    "throttled_time": ("quota_throttled", 1), "throttled_usec": ("quota_throttled", 1000),
}  # fmt: skip
_SWAP_COUNTS = {"pswpin": "swapped_in", "pswpout": "swapped_out"}

Values = dict[str, int]


class OsCounters:
    """Writes the readings of a recording into a file; never raises."""

    def __init__(self, path: Path, roots: Iterable[int], clock_ns: Callable[[], int]) -> None:
        """roots: the processes whose cgroups are read. Where the file cannot be made, none are."""
        self._roots = tuple(roots)
        self._clock_ns = clock_ns
        self._next_ns = 0
        self._turns = 0
        self._folders: dict[Path, None] = {}
        self._last_pid = 0
        self._energy = PackageEnergy()
        self._file: CounterFile | None = None
        with suppress(OSError):
            self._file = CounterFile(path, ts_at=0)

    def read_when_due(self, pids: Sequence[int]) -> None:
        """Read what is to be read of the machine and of some of the processes."""
        now_ns = self._clock_ns()
        if self._file is None or now_ns < self._next_ns:
            return
        self._next_ns = now_ns + INTERVAL_NS
        self._write([*self._of_machine(with_swap=self._turns % _SWAP_EVERY == 0)])
        self._write([*self._of_processes(self._next(pids))])
        self._turns += 1

    def forget_before(self, from_ns: int) -> None:
        """Drop readings before a time."""
        if self._file is not None:
            self._file.forget_before(from_ns)

    def stop(self, pids: Sequence[int]) -> None:
        """Read a last time, and close the file."""
        if self._file is None:
            return
        self._write([*self._of_machine(with_swap=True)])
        self._write([*self._of_processes(pids[:_AT_END])])
        self._file.is_ended = True
        self._file.update_header()
        self._file.close()
        self._file = None

    def _next(self, pids: Sequence[int]) -> list[int]:
        """Return those whose turn it is."""
        in_order = sorted(pids)
        later = [pid for pid in in_order if pid > self._last_pid]
        chosen = [*later, *in_order[: len(in_order) - len(later)]][:_AT_ONCE]
        self._last_pid = chosen[-1] if chosen else 0
        return chosen

    def _of_machine(self, *, with_swap: bool) -> Iterable[list[object]]:
        yield self._line("system", None, memory_pressure(_PRESSURE) | self._energy.read())
        if with_swap:
            yield self._line("system", None, _counts_of(_VMSTAT, _SWAP_COUNTS))
        # Those of a process that has ended say what it was stopped for.
        self._folders |= dict.fromkeys(at for pid in self._roots for at in quota_folders(pid))
        for folder in self._folders:
            counts = _scaled(folder / "cpu.stat")
            pressure = memory_pressure(folder / "memory.pressure")
            yield self._line("cgroup", str(folder), counts | pressure)

    def _of_processes(self, pids: Iterable[int]) -> Iterable[list[object]]:
        for pid in pids:
            yield self._line("process", pid, page_faults(pid))

    def _line(self, scope: str, key: int | str | None, values: Values) -> list[object]:
        return [self._clock_ns(), scope, key, values]

    def _write(self, lines: list[list[object]]) -> None:
        reported = [line for line in lines if line[-1]]
        if self._file is not None and reported:
            readings = sum(len(line[-1]) for line in reported if isinstance(line[-1], dict))
            self._file.write(reported, ts_ns=self._clock_ns(), readings=readings)


def memory_pressure(path: Path) -> Values:
    """Return for how long tasks stood still for lack of memory, in ns: some of them, and all."""
    values = {}
    for line in _text(path).splitlines():
        kind, *words = line.split()
        total = [word[6:] for word in words if word.startswith("total=")]
        if kind in ("some", "full") and total and total[0].isdigit():
            values[f"memory_stall_{kind}"] = int(total[0]) * 1000
    return values


def page_faults(pid: int) -> Values:
    """Return the page faults of a process so far: those that read a disk, and the others."""
    try:
        _, fields = split_stat(_text(Path(f"/proc/{pid}/stat")))
        return {"minor_faults": int(fields[7]), "major_faults": int(fields[9])}
    except (ValueError, IndexError):
        return {}


def _scaled(path: Path) -> Values:
    found = _counts_of(path, dict.fromkeys(_QUOTA_COUNTS, ""))
    return {_QUOTA_COUNTS[name][0]: n * _QUOTA_COUNTS[name][1] for name, n in found.items()}


def _counts_of(path: Path, names: dict[str, str]) -> Values:
    """Return the lines `name number` of a file, by the names that we give them."""
    values = {}
    for line in _text(path).splitlines():
        name, _, number = line.partition(" ")
        if name in names and number.isdigit():
            values[names[name] or name] = int(number)
    return values


def _text(path: Path) -> str:
    """Return what a file of the OS kernel says; nothing where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
