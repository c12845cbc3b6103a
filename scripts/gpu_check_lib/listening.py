"""The shim in a program and who reads it, without eBPF: the recorder's collector alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_check_lib import records

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_check_lib.context import Context
    from gpu_check_lib.records import Records
    from rlscope_trace._capture import ShimCollector


@dataclass(slots=True)
class Listener:
    """A collector that reads; listen() makes one."""

    folder: Path
    session: str
    collector: ShimCollector

    def environment(self, **settings: str) -> dict[str, str]:
        """Return what a program needs so that it tells; settings: RLSCOPE_* without the prefix."""
        from rlscope_trace import shims

        return {
            "CUDA_INJECTION64_PATH": str(shims.LIBRARY),
            "NVTX_INJECTION64_PATH": str(shims.LIBRARY),
            "RLSCOPE_SESSION": self.session,
            "RLSCOPE_NVTX": "",
            "RLSCOPE_CUPTI": "on",
            **{f"RLSCOPE_{name}": value for name, value in settings.items()},
        }

    def records(self) -> Records:
        """End the reading; return what was told."""
        self.collector.stop()
        return records.read(self.folder / "shim.bin")


def listen(context: Context, name: str) -> Listener:
    """Begin to read programs of a new session, into a folder of that name."""
    from rlscope_trace import _capture, shims

    folder = context.folder / name
    folder.mkdir()
    session = shims.new_session()
    collector = _capture.ShimCollector(str(folder), session)
    collector.start()
    return Listener(folder, session, collector)
