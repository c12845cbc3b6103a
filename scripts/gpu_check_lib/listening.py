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
    cupti: str = ""
    """The libcupti to use; "": the shim has to find it."""

    def environment(self, **settings: str) -> dict[str, str]:
        """Return what a program needs so that it tells; settings: RLSCOPE_* without the prefix."""
        from rlscope_trace.record import shims

        given = {"RLSCOPE_CUPTI_LIBRARY": self.cupti} if self.cupti else {}
        return {
            **given,
            "CUDA_INJECTION64_PATH": str(shims.LIBRARY),
            "NVTX_INJECTION64_PATH": str(shims.LIBRARY),
            "RLSCOPE_SESSION": self.session,
            "RLSCOPE_NVTX": "",
            "RLSCOPE_CUPTI": "on",
            **{f"RLSCOPE_{name}": value for name, value in settings.items()},
        }

    def records(self) -> Records:
        """End the reading; return what was reported."""
        self.collector.stop()
        return records.read(self.folder / "shim.bin")


def listen(context: Context, name: str, *, finds_cupti: bool = False) -> Listener:
    """Begin to read programs of a new session, into a folder of that name.

    finds_cupti: the program loads what leads the shim to CUPTI, as PyTorch does. Ours do not: for
    them the one is named that PyTorch was seen to load.
    """
    from rlscope_trace import _capture
    from rlscope_trace.record import shims

    folder = context.folder / name
    folder.mkdir()
    session = shims.new_session()
    collector = _capture.ShimCollector(str(folder), session, shims.own_processes())
    collector.start()
    seen = context.known.get("mapped_cupti") or [""]
    return Listener(folder, session, collector, "" if finds_cupti else seen[0])
