"""One process of the target, as the probes know it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rlscope_trace import _capture
from rlscope_trace.procfs import split_stat

if TYPE_CHECKING:
    from collections.abc import Sequence

# Path, device, inode, first address, end, offset in the file: PythonScan.mappings().
Mapping = tuple[str, int, int, int, int, int]
FileKey = tuple[int, int]

# How often it is looked at: at first, and once nothing changes.
_SHORT_NS = 250_000_000
_LONG_NS = 2_000_000_000
# Its mappings take a millisecond to read, for which what it maps itself may have to wait. So they
# are read when its size tells that they changed, and after so long: what came may be as large as
# what went.
_REREAD_NS = 30_000_000_000
# Fields 23 and 28 of /proc/PID/stat, as split_stat counts them.
_VSIZE, _STARTSTACK = 23 - 3, 28 - 3
# As of process.command.
_TITLE_BYTES = 512
# The native half of the Python package nvtx, which calls NVTX for it.
_NVTX_PACKAGE = re.compile(r"/nvtx/_lib/lib\.[^/]*so$")


def cpu_time_ns(pid: int) -> int | None:
    """Return the CPU time that a process has used; None if it is gone."""
    try:
        # The clock of another process: CPUCLOCK_SCHED of the whole group (linux/posix-timers.h).
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return None


def has_other_clock(pid: int) -> bool:
    """Tell whether a process is in a time namespace that is not ours: time_namespaces(7)."""
    try:
        own, other = (Path(f"/proc/{who}/ns/time").stat() for who in ("self", pid))
    except OSError:
        # Gone, or an OS kernel without them.
        return False
    return own.st_ino != other.st_ino


def title_of(pid: int, *, is_served: bool) -> str | None:
    """Return what ps shows of a process; None: it has ended, or has none.

    is_served: of Process.
    """
    try:
        if is_served:
            shown = _capture.shown_memory(pid, "cmdline", _TITLE_BYTES + 1)
        else:
            with Path(f"/proc/{pid}/cmdline").open("rb") as file:
                shown = file.read(_TITLE_BYTES + 1)
    except OSError:
        return None
    # A program that writes its title there leaves the rest empty.
    text = shown[:_TITLE_BYTES].rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    return f"{text} ..." if text and len(shown) > _TITLE_BYTES else text.strip() or None


class AddressSpace(NamedTuple):
    """What tells cheaply whether the mappings of a process can be others than before."""

    stack_start: int
    """Elsewhere after each exec; 0: not known."""
    size_bytes: int
    """0: not known, or the process has ended."""


_UNKNOWN = AddressSpace(0, 0)


def address_space(pid: int) -> AddressSpace:
    """Return that of a process, as /proc/PID/stat tells it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return _UNKNOWN
    _, fields = split_stat(status)
    if len(fields) <= _STARTSTACK:
        return _UNKNOWN
    return AddressSpace(int(fields[_STARTSTACK]), int(fields[_VSIZE]))


@dataclass(slots=True)
class Process:
    """What is known of a process, and when it is to be looked at again."""

    pid: int
    is_new: bool
    """It entered the trace just now, so that its modules are still being loaded."""
    due_ns: int = 0
    mappings: tuple[Mapping, ...] = ()
    is_served: bool = True
    """Whether a program serves some of its memory, as far as is known: inject/mapped_file.h."""
    holds_up: bool = False
    """Its memory or its files did not answer: it is asked nothing more."""
    is_settled: bool = False
    """The last two looks saw the same mappings: what was being loaded is loaded."""
    modules: dict[FileKey, Mapping] = field(default_factory=dict)
    """Those of its files that are to be probed."""
    interpreter: FileKey | None = None
    is_reported: bool = False
    """It has been written down that there is no Python in it."""
    cpu_ns: int = 0
    cuda_files: dict[FileKey, Mapping] = field(default_factory=dict)
    """Those that may hold functions of the CUDA API: probes.cuda_calls."""
    cuda_reported: object = None
    """What has been written down of them."""
    has_other_clock: bool = False
    """It has been written down that its clock is not ours."""
    title: str | None = None
    """What ps showed of it last."""
    has_nvtx_package: bool = False
    """It has been written down that the Python package nvtx is loaded."""
    expects_cupti: bool | None = None
    """Whether CUPTI is to tell of its calls of the CUDA API; None: not looked at yet."""
    _space: AddressSpace = _UNKNOWN
    """Since its mappings were read: another one tells that they changed."""
    _reread_ns: int = 0
    """When they are to be read again all the same."""
    _interval_ns: int = field(default=_SHORT_NS)

    def update(self, mappings: Sequence[Mapping], now_ns: int) -> bool:
        """Take the mappings that it has now; tell whether they are others than before."""
        changed = tuple(mappings) != self.mappings
        self.mappings = tuple(mappings)
        self._reread_ns = now_ns + _REREAD_NS
        self._looked(now_ns, changed=changed)
        return changed

    def rest(self, now_ns: int) -> None:
        """Take it that its mappings are those of the last look."""
        self._looked(now_ns, changed=False)

    def _looked(self, now_ns: int, *, changed: bool) -> None:
        # What was there before us has long been loaded.
        self.is_settled = not changed or not self.is_new
        self._interval_ns = _SHORT_NS if changed else min(2 * self._interval_ns, _LONG_NS)
        self.is_new = True
        # Those that nothing happens in come up together: each time we wake costs more than a look.
        self.due_ns = now_ns + self._interval_ns
        self.due_ns -= self.due_ns % (self._interval_ns // 2)

    def look_soon(self) -> None:
        """Have it looked at as a process that has just come: it runs another program."""
        self.due_ns = 0
        self._interval_ns = _SHORT_NS

    def note_program(self, space: AddressSpace) -> None:
        """Forget the interpreter that was found in it if it called exec since.

        space: its address_space() before its mappings are read, so that what changes in between is
        found the next time. A new program often runs the same interpreter, at another address.
        """
        if space.stack_start != self._space.stack_start:
            self.interpreter = None
            self.mappings = ()
            self.cuda_reported = self.expects_cupti = None
            self.has_nvtx_package = self.has_other_clock = False
        if space != self._space or not space.size_bytes:
            self._reread_ns = 0
        self._space = space

    def has_to_be_read(self, now_ns: int) -> bool:
        """Tell whether its mappings may be others than those that were read last."""
        return now_ns >= self._reread_ns

    def begin_again(self, now_ns: int) -> None:
        """Take nothing of the last look, which was broken off, and look again after a while."""
        self.interpreter = None
        self.mappings = ()
        self._reread_ns = 0
        self._interval_ns = min(2 * self._interval_ns, _LONG_NS)
        self.due_ns = now_ns + self._interval_ns

    def has_lost_its_interpreter(self) -> bool:
        """Tell whether the interpreter that was found in it is no longer there."""
        return self.interpreter is not None and self.interpreter not in {
            (mapping[1], mapping[2]) for mapping in self.mappings
        }

    def finds_nvtx_package(self) -> bool:
        """Tell whether the Python package nvtx is loaded now, and was not when last asked."""
        had_it = self.has_nvtx_package
        self.has_nvtx_package |= any(_NVTX_PACKAGE.search(mapping[0]) for mapping in self.mappings)
        return self.has_nvtx_package and not had_it
