"""One side of a comparison: the values per iteration of its runs, corrected where both can be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.compare.run import CPU, GPU, GPU_BUSY, PROCESS, SEEN_TIME, WALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rlscope_analysis.compare.run import Key, Run
    from rlscope_analysis.compare.spread import Values


@dataclass(frozen=True, slots=True)
class Scale:
    """What times are multiplied by, to what they would be on the machine of the other side."""

    factor: float = 1.0
    error: float = 0.0
    """The standard error of the factor, as a part of it."""


_AS_MEASURED = Scale()


class Side:
    """The runs of one side; values are per iteration, in ns or counts."""

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        is_corrected: bool,
        cpu: Scale = _AS_MEASURED,
        gpu: Scale = _AS_MEASURED,
    ) -> None:
        """cpu, gpu: of CPU time, and of the time that a GPU works."""
        # Sums of floats depend on the order; this one does not on that of the arguments.
        self.runs = sorted(runs, key=content_of)
        self._is_corrected = is_corrected
        self._cpu, self._gpu = cpu, gpu
        self._cut = slice(None)

    def cut(self, first: int, end: int) -> None:
        """Look at these iterations only."""
        self._cut = slice(first, end)

    @property
    def keys(self) -> set[Key]:
        """Everything that any of the runs has."""
        return {key for run in self.runs for key in run.series}

    @property
    def has_iterations(self) -> bool:
        """Whether each iteration is known; a baseline keeps sums of blocks of them."""
        return all((run.iterations == 1).all() for run in self.runs)

    def values(self, keys: Iterable[Key]) -> list[Values]:
        """Return, for each run, the sum of these series per iteration."""
        chosen = sorted(keys)
        return [self._of_run(run, chosen) for run in self.runs]

    def total(self, wanted: Callable[[Key], bool]) -> list[Values]:
        """Return the sum of all series of which that holds."""
        return self.values(key for key in self.keys if wanted(key))

    def doubt(self, keys: Iterable[Key]) -> float:
        """Return the standard error of the mean of the sum of these by the factors, in ns."""
        keys = list(keys)
        of_cpu = self._mean(filter(_is_cpu_time, keys)) if self._cpu.error else 0.0
        of_gpu = self._mean(filter(_is_gpu_time, keys)) if self._gpu.error else 0.0
        return math.hypot(self._cpu.error * of_cpu, self._gpu.error * of_gpu)

    def _mean(self, keys: Iterable[Key]) -> float:
        means = [float(values.mean()) for values in self.values(keys)]
        return sum(means) / len(means)

    def _of_run(self, run: Run, keys: Sequence[Key]) -> Values:
        total = np.zeros(len(run.iterations))
        for key in keys:
            if key in run.series:
                total += run.series[key] * self._kept(run, key)
        if (run.iterations != 1).any():
            total = np.repeat(total / run.iterations, run.iterations)
        return total[self._cut]

    def _kept(self, run: Run, key: Key) -> float:
        """Return which part of a series is left when what recording cost is taken off."""
        if not _is_cpu_time(key):
            return self._gpu.factor if _is_gpu_time(key) else 1.0
        if not self._is_corrected or run.overhead is None or key[0] not in {CPU, WALL}:
            return self._cpu.factor
        return self._cpu.factor * (1.0 - run.overhead.get(key[2], 0.0))


def _is_cpu_time(key: Key) -> bool:
    if key[0] == WALL:
        return key[1] != GPU and key[4] == "running"
    return key[0] in {CPU, PROCESS} or key[:2] == (SEEN_TIME, "function")


def _is_gpu_time(key: Key) -> bool:
    if key[0] == WALL:
        return key[1] == GPU and key[3:] in {("kernel", "gpu"), ("graph", "gpu")}
    return key[0] == GPU_BUSY or key[:2] in {(SEEN_TIME, "kernel"), (SEEN_TIME, "graph")}


def content_of(run: Run) -> tuple[int, bytes]:
    """Return what tells runs apart that are not alike."""
    wall = sorted(key for key in run.series if key[0] in {WALL, PROCESS})
    return run.length, b"".join(run.series[key].tobytes() for key in wall)
