"""What a sample costs the thread that is sampled."""

from __future__ import annotations

import statistics
from contextlib import suppress
from typing import TYPE_CHECKING

from rlscope_trace import _capture
from rlscope_trace.record.calibrate.children import CalibrationError, Child, measured_cpu
from rlscope_trace.record.calibrate.results import Values
from rlscope_trace.record.calibrate.traced import Traced
from rlscope_trace.record.layers import LayerRules
from rlscope_trace.record.loaders.capture import bpf_file

if TYPE_CHECKING:
    from pathlib import Path

    from rlscope_trace.spool.costs import Cost

# More than any recording takes, so that most of what interrupts the loop are samples.
_HZ = 4999


class SampleLoops:
    """A Python process whose thread looks at the clock in a loop: a sample is a gap in it.

    Of as many of the longest gaps as there are samples, the median is that of a sample: ticks of
    the OS kernel are several times as rare.
    """

    events = ("sample",)

    def __init__(self, scratch: Path, length_ms: float) -> None:
        """length_ms: of one measurement."""
        self._values = Values()
        self._length_ms = length_ms
        self._child = Child(measured_cpu())
        self._traced: Traced | None = None
        self._sampler: _capture.Sampler | None = None
        try:
            self._child.ask("gaps", length_ms=1)
            self._traced = Traced(scratch / "samples", [self._child])
            self._sampler = self._start(self._traced)
        except BaseException:
            self.close()
            raise

    def _start(self, traced: Traced) -> _capture.Sampler:
        sampler = _capture.Sampler(
            str(bpf_file("sample.bpf.o")), threads_fd=traced.capture.task_storage_fd or -1,
            loss_fd=traced.capture.loss_fd, hz=_HZ, spool=traced.spool, rules=LayerRules().rules(),
        )  # fmt: skip
        runtime = _capture.PythonScan(self._child.pid).runtime()
        if runtime is not None and runtime["implementation"] == "cpython":
            with suppress(OSError):
                sampler.note_python(self._child.pid, runtime)
        sampler.start()
        sampler.suspend()
        return sampler

    def visit(self) -> None:
        """Take one measurement."""
        assert self._sampler is not None
        self._sampler.resume()
        try:
            gaps_ns = list(self._child.ask("gaps", length_ms=self._length_ms)["ns"])
        finally:
            self._sampler.suspend()
        expected = round(_HZ * self._length_ms / 1000)
        if len(gaps_ns) < expected / 2:
            raise CalibrationError(f"{len(gaps_ns)} of {expected} samples were felt")
        # The longest ones: the others are the machine's own hiccups, which may be many.
        samples_ns = sorted(gaps_ns)[-expected:]
        self._values.add("sample", "", statistics.median(samples_ns))

    def finish(self) -> None:
        """Nothing is left to be read."""

    def costs(self) -> list[Cost]:
        """Return the rows of what was measured."""
        return self._values.costs()

    @property
    def lost(self) -> int:
        """How many records found no room."""
        return self._traced.lost if self._traced is not None else 0

    def close(self) -> None:
        """End the process, and what samples it."""
        if self._sampler is not None:
            self._sampler.stop()
        if self._traced is not None:
            self._traced.close()
        self._child.close()
