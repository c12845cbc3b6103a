"""What CUPTI and the shim cost a program that calls CUDA, where there is a GPU.

Two processes, with the shim and without, launch kernels that end at once, and free no memory. The
latter does nothing and has the record of a call; a launch has that and the record of its kernel.
Which part of the cost lies within the call is not known.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, files
from typing import TYPE_CHECKING

from rlscope_trace import _capture
from rlscope_trace.record import shims
from rlscope_trace.record.calibrate.children import Child, measured_cpu
from rlscope_trace.record.calibrate.estimate import added
from rlscope_trace.record.calibrate.results import Values, failed, missing

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.spool.costs import Cost

_LIBRARY = "RLSCOPE_CUPTI_LIBRARY"
_PACKAGES = ("nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12", "nvidia-cuda-cupti-cu11")
# So few that the queue of the GPU never fills up, which would make launches wait.
_COUNT = 200
# Records of a launch (call, kernel) and of a call.
_RECORDS = 3


class CudaLoops:
    """Launches and calls that are recorded, and the same where nobody asks."""

    events = ("cupti_api", "cupti_activity")

    def __init__(self, scratch: Path, batches: int) -> None:
        """Raise CalibrationError where there is no GPU."""
        self._values = Values()
        self._batches = batches
        self._expected = 0
        self._refused = ""
        self._children: list[Child] = []
        directory = scratch / "cuda"
        directory.mkdir()
        session = shims.new_session()
        self._shims = _capture.ShimCollector(str(directory), session, shims.own_processes())
        self._shims.start()
        environment = {
            "CUDA_INJECTION64_PATH": str(shims.LIBRARY),
            **shims.late_environment(session, "", shims.GpuSettings()),
            **_cupti(),
        }
        try:
            self._open(environment)
        except BaseException:
            self.close()
            raise

    def _open(self, environment: dict[str, str]) -> None:
        cpu = measured_cpu()
        # The one that is alone first: without a driver there is no need for the other.
        for child_environment in ({}, environment):
            child = Child(cpu, environment=child_environment)
            self._children.append(child)
            child.ask("cuda_open")
            # What happens once is not what is measured.
            child.ask("cuda_calls", count=1, batches=1)

    def visit(self) -> None:
        """Take one measurement of everything."""
        alone, recorded = (
            child.ask("cuda_calls", count=_COUNT, batches=self._batches) for child in self._children
        )
        self._expected += _RECORDS * _COUNT * self._batches
        call_ns = added(recorded["call"], alone["call"])
        self._values.add_whole("cupti_api", "", call_ns)
        launch_ns = added(recorded["launch"], alone["launch"])
        self._values.add_whole("cupti_activity", "", launch_ns - call_ns)

    def finish(self) -> None:
        """See whether it was recorded at all: else what was measured is the cost of nothing."""
        # Their ends have the shim hand over what it still has.
        for child in self._children:
            child.end()
        self._shims.stop()
        reported = self._shims.events + self._shims.lost
        if reported < self._expected:
            self._refused = (
                f"{reported} of {self._expected} records were reported: rlscope-trace doctor"
            )

    def costs(self) -> list[Cost]:
        """Return the rows of what was measured."""
        if self._refused:
            return [missing(event, failed(self._refused)) for event in self.events]
        return self._values.costs()

    @property
    def lost(self) -> int:
        """How many records found no room."""
        return self._shims.lost

    def close(self) -> None:
        """End the processes."""
        self._shims.stop()
        for child in self._children:
            child.close()


def _cupti() -> dict[str, str]:
    """Return what names the libcupti of NVIDIA's wheels, if they are here, to the shim.

    Our loops load no library that would lead it there, as PyTorch does.
    """
    if _LIBRARY in os.environ:
        return {_LIBRARY: os.environ[_LIBRARY]}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            for file in files(package) or ():
                if file.name.startswith("libcupti.so."):
                    return {_LIBRARY: str(file.locate())}
    return {}
