"""libbpf without BTF: plain tracepoints, offsets from tracefs, a hash of tids as the filter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlscope_trace import _capture
from rlscope_trace.errors import TracerError
from rlscope_trace.record.loaders.capture import bpf_file
from rlscope_trace.record.loaders.tid_filter import enter_from_proc
from rlscope_trace.record.loaders.tracefs import field_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_trace.record.loaders.capture import TracedProcess

# Inode of the initial pid namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO).
_INITIAL_PID_NAMESPACE = 0xEFFFFFFC


class TracepointLoader:
    """Plain tracepoint programs loaded by libbpf."""

    def __init__(self, *, ring_bytes: int) -> None:
        require_initial_pid_namespace()
        self._programs = _capture.TracepointCapture(
            str(bpf_file("sched_tp.bpf.o")), ring_bytes, field_offsets()
        )
        self._table = _capture.ThreadTable(self._programs.threads_fd, self._programs.control_fd)
        self.ring_fd = self._programs.ring_fd
        self.loss_fd = self._programs.loss_fd
        self.task_storage_fd: int | None = None

    def attach(self, only: Sequence[str] = ()) -> None:
        """Attach the programs, or of them those with these names."""
        self._programs.attach(only)

    def enter(self, targets: Iterable[TracedProcess]) -> int:
        """Put the threads of the targets and their descendants into the filter."""
        return enter_from_proc(self._table, [target.pid for target in targets])

    def detach(self) -> None:
        """Detach the programs."""
        self._programs.detach()

    def finish(self, spool: _capture.SpoolWriter) -> None:
        """Detach, then write the open ends, which the filter remembers, into the spool."""
        self.detach()
        self._table.close_open(spool)

    def tell_open(self) -> bytes:
        """Return what each thread is doing, while the programs go on."""
        return self._table.tell_open()

    def missed_runs(self) -> int:
        """Return how often the OS kernel skipped a program of ours."""
        return self._programs.missed_runs()

    def failed_updates(self) -> int:
        """Return how many threads found the filter full."""
        return self._table.failed_updates()


def require_initial_pid_namespace(namespace: Path = Path("/proc/self/ns/pid")) -> None:
    """Refuse a nested pid namespace: the tracepoints tell initial pids, /proc tells others."""
    if namespace.stat().st_ino != _INITIAL_PID_NAMESPACE:
        raise TracerError(
            "without BTF, tracing works only in the initial pid namespace, and this is another",
            hint="run rlscope-trace on the host, or start the container with --pid=host",
        )
