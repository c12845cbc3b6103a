"""libbpf on kernels with BTF: the first choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_trace import _capture
from rlscope_trace.record.loaders.capture import bpf_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_trace.record.loaders.capture import TracedProcess


class BtfLoader:
    """tp_btf programs; the filter is task storage, marked by pidfd."""

    def __init__(self, *, ring_bytes: int) -> None:
        self._programs = _capture.BtfCapture(str(bpf_file("sched.bpf.o")), ring_bytes)
        self.ring_fd = self._programs.ring_fd
        self.loss_fd = self._programs.loss_fd
        self.task_storage_fd: int | None = self._programs.threads_fd

    def attach(self) -> None:
        """Attach the programs."""
        self._programs.attach()

    def enter(self, targets: Iterable[TracedProcess]) -> int:
        """Mark the targets, then let the programs walk to their threads and descendants."""
        for target in targets:
            self._programs.mark(target.pidfd)
        return self._programs.enter_existing()

    def detach(self) -> None:
        """Detach the programs."""
        self._programs.detach()

    def finish(self, spool: _capture.SpoolWriter) -> None:
        """Let the programs write the open ends into the ring, then detach them.

        In this order, as a thread that died in between would have no end at all.
        """
        del spool
        self._programs.close_open()
        self._programs.detach()

    def tell_open(self) -> bytes:
        """Return what each thread is doing, while the programs go on."""
        return self._programs.tell_open()

    def missed_runs(self) -> int:
        """Return how often the OS kernel skipped a program of ours."""
        return self._programs.missed_runs()

    def failed_updates(self) -> int:
        """Return how many threads found no memory for their storage."""
        return self._programs.failed_updates()
