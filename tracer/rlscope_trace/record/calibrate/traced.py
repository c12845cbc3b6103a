"""What measured processes are traced by: the recorder's own parts, with a scratch spool."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rlscope_trace import _capture, _ingest
from rlscope_trace.record.loaders.btf import BtfLoader
from rlscope_trace.record.loaders.tracepoints import TracepointLoader
from rlscope_trace.spool.directory import RECORDS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rlscope_trace.record.calibrate.children import Child
    from rlscope_trace.record.loaders.capture import Capture

_RING_BYTES = 1 << 23
_STEP_BYTES = 64 << 20
_BATCH_ROWS = 1 << 18


class _Switches(TracepointLoader):
    """Of the tracepoints those that are measured: the OS kernel takes 80 ms to let go of one."""

    def attach(self, only: Sequence[str] = ("on_switch", "on_waking")) -> None:
        """Attach them."""
        super().attach(only)


# The backends, best first. What bcc loads are the programs of tracefs, at the same tracepoints.
CAPTURES: dict[str, Callable[..., Capture]] = {"btf": BtfLoader, "tracefs": _Switches}


class Traced:
    """A loaded capture of its own, with a ring that is emptied; attached only if asked for."""

    def __init__(self, directory: Path, children: Iterable[Child], backend: str = "btf") -> None:
        """directory: an empty one of its own; backend: one of CAPTURES.

        Raises OSError where the OS kernel takes no BPF, TracerError where it lacks what the backend
        needs.
        """
        self.capture = CAPTURES[backend](ring_bytes=_RING_BYTES)
        directory.mkdir()
        self._directory = directory
        self._is_open = True
        self.spool = _capture.SpoolWriter(str(directory), _capture.possible_cpus())
        self._drain = _capture.Drain(self.capture.ring_fd, self.capture.loss_fd, self.spool)
        self._drain.start()
        self.capture.enter(children)

    @property
    def lost(self) -> int:
        """How many records found no room: of them, the cost is not measured."""
        return self.spool.counters()["lost"]

    def calls(self) -> dict[str, NDArray[np.int64]]:
        """End the recording; return site_id, start_ns and end_ns of all calls, by their end."""
        import numpy as np

        self.close()
        scan = _ingest.SpoolScan(str(self._directory / RECORDS_FILE), end_ns=0)
        while scan.advance(_STEP_BYTES):
            pass
        rows = _ingest.EventRows(scan)
        names = ("site_id", "start_ns", "end_ns")
        parts: dict[str, list[NDArray[np.int64]]] = {name: [] for name in names}
        while (batch := rows.next_batch(_BATCH_ROWS)) is not None:
            for name in names:
                # A copy: the next batch overwrites this one.
                parts[name].append(batch["calls"][name].astype(np.int64))
        return {name: np.concatenate([*parts[name], np.empty(0, np.int64)]) for name in names}

    def close(self) -> None:
        """Take everything out of the OS kernel."""
        if not self._is_open:
            return
        self._is_open = False
        with suppress(OSError):
            self.capture.detach()
        self._drain.stop()
        self.spool.finish(end_ns=time.monotonic_ns(), missed_runs=0, failed_updates=0)
