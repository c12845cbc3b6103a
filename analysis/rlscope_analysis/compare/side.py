"""One side of a comparison: the values per iteration of its runs, corrected where both can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.compare.run import CPU, GPU, PROCESS, SEEN_TIME, WALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rlscope_analysis.compare.run import Key, Run
    from rlscope_analysis.compare.spread import Values


class Side:
    """The runs of one side; values are per iteration, in ns or counts."""

    def __init__(
        self, runs: Sequence[Run], *, is_corrected: bool, factor: float = 1.0, error: float = 0.0
    ) -> None:
        """factor: of CPU time, to what it would be on the other side's machine, and its error."""
        # Sums of floats depend on the order; this one does not on that of the arguments.
        self.runs = sorted(runs, key=content_of)
        self._is_corrected = is_corrected
        self._factor, self._error = factor, error
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
        """Return the standard error of the mean of the sum of these by the factor, in ns."""
        scaled = [key for key in keys if _is_cpu_time(key)]
        if not self._error or not scaled:
            return 0.0
        means = [float(values.mean()) for values in self.values(scaled)]
        return self._error * sum(means) / len(means)

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
            return 1.0
        if not self._is_corrected or run.overhead is None or key[0] not in {CPU, WALL}:
            return self._factor
        return self._factor * (1.0 - run.overhead.get(key[2], 0.0))


def _is_cpu_time(key: Key) -> bool:
    if key[0] == WALL:
        return key[1] != GPU and key[4] == "running"
    return key[0] in {CPU, PROCESS} or key[:2] == (SEEN_TIME, "function")


def content_of(run: Run) -> tuple[int, bytes]:
    """Return what tells runs apart that are not alike."""
    wall = sorted(key for key in run.series if key[0] in {WALL, PROCESS})
    return run.length, b"".join(run.series[key].tobytes() for key in wall)
