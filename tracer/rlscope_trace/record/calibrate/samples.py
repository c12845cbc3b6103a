"""What a sample costs the thread that is sampled."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from rlscope_trace import _capture
from rlscope_trace.record.calibrate.account import counted, per_run
from rlscope_trace.record.calibrate.children import CalibrationError, Child, measured_cpu
from rlscope_trace.record.calibrate.results import Values
from rlscope_trace.record.calibrate.traced import Traced
from rlscope_trace.record.layers import LayerRules
from rlscope_trace.record.loaders.capture import bpf_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rlscope_trace.spool.costs import Cost

# More than any recording takes, so that most of what interrupts the loop are samples.
_HZ = 4999


class SampleLoops:
    """A Python process whose thread looks at the clock in a loop: a sample is a gap in it.

    Of the gaps that are as long as a run of the program, the median is that of a sample: there are
    several times as many as ticks of the OS kernel.
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
        programs = self._sampler.programs()
        self._sampler.resume()
        try:
            gaps_ns = self._look()
            # Of threads that are not traced: meanwhile the process waits.
            other = counted(programs, lambda: time.sleep(self._length_ms / 1000))
            felt: list[float] = []
            told = counted(programs, lambda: felt.extend(self._look()))
        finally:
            self._sampler.suspend()
        runs = told.get("on_tick", (0, 0))
        other_run_ns = per_run(other.get("on_tick", (0, 0))) or 0.0
        own = min(runs[0], len(_longer(felt, per_run(runs))))
        run_ns = per_run(runs, own, other_run_ns)
        samples_ns = _longer(gaps_ns, run_ns)
        expected = _HZ * self._length_ms / 1000
        if len(samples_ns) < expected / 2:
            raise CalibrationError(f"{len(samples_ns)} of {expected:.0f} samples were felt")
        self._values.add("sample", "", statistics.median(samples_ns))
        self._values.add_program("sample", "", run_ns)

    def _look(self) -> list[float]:
        return list(self._child.ask("gaps", length_ms=self._length_ms)["ns"])

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


def _longer(gaps_ns: Sequence[float], run_ns: float | None) -> list[float]:
    """Leave out what is too short for a sample: the machine's own hiccups, which may be many."""
    return [gap_ns for gap_ns in gaps_ns if gap_ns > (run_ns or 0.0)]
