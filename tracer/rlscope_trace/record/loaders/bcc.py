"""The second loader: the tracepoint programs through Debian's python3-bpfcc.

bcc compiles on this machine, against kernel headers that may belong to another kernel. That is
safe here because the source uses tracepoint arguments and helpers only.
"""

from __future__ import annotations

import importlib
import mmap
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlscope_trace import _capture
from rlscope_trace.errors import TracerError
from rlscope_trace.record.loaders.capture import bpf_file
from rlscope_trace.record.loaders.kernel_headers import INSTALL_HINT, headers_for_bcc
from rlscope_trace.record.loaders.tid_filter import enter_from_proc
from rlscope_trace.record.loaders.tracefs import field_offsets
from rlscope_trace.record.loaders.tracepoints import require_initial_pid_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_trace.record.loaders.capture import TracedProcess

# Where Debian and Ubuntu put it: outside every virtual environment.
_DISTRIBUTION_PACKAGES = Path("/usr/lib/python3/dist-packages")

_PROGRAMS = {
    "on_switch": "sched:sched_switch",
    "on_waking": "sched:sched_waking",
    "on_wakeup_new": "sched:sched_wakeup_new",
    "on_newtask": "task:task_newtask",
    "on_exec": "sched:sched_process_exec",
    "on_exit": "sched:sched_process_exit",
    "on_rename": "task:task_rename",
}


class BccLoader:
    """Plain tracepoint programs compiled and loaded by bcc."""

    def __init__(self, *, ring_bytes: int) -> None:
        require_initial_pid_namespace()
        offsets = field_offsets()
        flags = [f"-DRLS_OFFSET_{name}={offset}" for name, offset in offsets.items()]
        flags.append(f"-DRLS_RING_PAGES={ring_bytes // mmap.PAGESIZE}")
        self._bpf = _compile(bpf_file("sched_tp.bcc.c").read_text(), flags)
        self._table = _capture.ThreadTable(self._fd("threads"), self._fd("control"))
        self.ring_fd = self._fd("ring")
        self.loss_fd = self._fd("loss")
        self.task_storage_fd: int | None = None

    def _fd(self, name: str) -> int:
        return int(self._bpf[name].map_fd)

    def attach(self) -> None:
        """Attach the programs."""
        with _capture.PerfRight():
            for function, tracepoint in _PROGRAMS.items():
                self._bpf.attach_tracepoint(tp=tracepoint, fn_name=function)

    def enter(self, targets: Iterable[TracedProcess]) -> int:
        """Put the threads of the targets and their descendants into the filter."""
        return enter_from_proc(self._table, [target.pid for target in targets])

    def detach(self) -> None:
        """Detach the programs."""
        for tracepoint in _PROGRAMS.values():
            self._bpf.detach_tracepoint(tp=tracepoint)
        _capture.wait_for_running_programs()

    def finish(self, spool: _capture.SpoolWriter) -> None:
        """Detach, then write the open ends, which the filter remembers, into the spool."""
        self.detach()
        self._table.close_open(spool)

    def tell_open(self) -> bytes:
        """Return what each thread is doing, while the programs go on."""
        return self._table.tell_open()

    def missed_runs(self) -> int:
        """Return how often the OS kernel skipped a program of ours."""
        return sum(_capture.missed_runs(self._bpf.funcs[name.encode()].fd) for name in _PROGRAMS)

    def failed_updates(self) -> int:
        """Return how many threads found the filter full."""
        return self._table.failed_updates()


def _import_bcc() -> Any:  # noqa: ANN401 - Debian's package carries no types
    try:
        return importlib.import_module("bcc")
    except ImportError:
        pass
    if not (_DISTRIBUTION_PACKAGES / "bcc").is_dir():
        raise TracerError("--loader bcc needs the Python package bcc", hint=INSTALL_HINT)
    # Only for this import: the other packages there belong to another interpreter.
    sys.path.append(str(_DISTRIBUTION_PACKAGES))
    try:
        return importlib.import_module("bcc")
    except (ImportError, OSError) as error:
        raise TracerError(f"bcc does not load here: {error}", hint=INSTALL_HINT) from error
    finally:
        sys.path.remove(str(_DISTRIBUTION_PACKAGES))


def _compile(source: str, flags: list[str]) -> Any:  # noqa: ANN401 - as above
    bcc = _import_bcc()
    try:
        with headers_for_bcc():
            return bcc.BPF(text=source, cflags=flags)
    except TracerError:
        raise
    except Exception as error:  # bcc raises bare Exception when clang fails
        raise TracerError(
            f"bcc could not compile or load the programs: {error}",
            hint="rlscope-trace doctor shows whether the other loader works",
        ) from error
