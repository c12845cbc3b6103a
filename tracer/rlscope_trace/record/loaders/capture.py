"""What every loader offers the session: a capture that can be attached, filled and closed."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlscope_trace._capture import SpoolWriter


class TracedProcess(Protocol):
    """A process to trace, held by pidfd so that it cannot be mistaken for another."""

    @property
    def pid(self) -> int:
        """Its pid in the namespace of the recorder."""

    @property
    def pidfd(self) -> int:
        """Open file descriptor that names this process and no later one."""


class Capture(Protocol):
    """Loaded programs. In this order: attach, enter, and in the end finish (or just detach)."""

    @property
    def ring_fd(self) -> int:
        """File descriptor of the ring buffer."""

    @property
    def loss_fd(self) -> int:
        """File descriptor of the per-CPU loss counters."""

    @property
    def task_storage_fd(self) -> int | None:
        """File descriptor of the filter, for other programs to share; None: no task storage."""

    def attach(self) -> None:
        """Attach the programs; from here on what traced threads create is traced."""

    def enter(self, targets: Iterable[TracedProcess]) -> int:
        """Start tracing processes, their threads and descendants; return how many threads."""

    def detach(self) -> None:
        """Detach the programs; afterwards none of them runs any more."""

    def finish(self, spool: SpoolWriter) -> None:
        """Detach, and write the open end of every thread into the ring or the spool."""

    def tell_open(self) -> bytes:
        """Return what each thread is doing, while the programs go on: see LiveTotals."""

    def missed_runs(self) -> int:
        """Return how often the OS kernel skipped a program of ours."""

    def failed_updates(self) -> int:
        """Return how many threads could not be entered into the filter."""


def bpf_file(name: str) -> Path:
    """Return the path of a file that the build put beside the package."""
    return Path(str(resources.files("rlscope_trace") / "bpf" / name))
