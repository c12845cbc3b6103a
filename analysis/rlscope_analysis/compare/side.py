"""One side of a comparison: the values per iteration of its runs, corrected where both can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.compare.run import CPU, PROCESS, WALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rlscope_analysis.compare.run import Key, Run
    from rlscope_analysis.compare.spread import Values


class Side:
    """The runs of one side; values are per iteration, in ns or counts."""

    def __init__(self, runs: Sequence[Run], *, is_corrected: bool) -> None:
        # Sums of floats depend on the order; this one does not on that of the arguments.
        self.runs = sorted(runs, key=_content)
        self._is_corrected = is_corrected
        self._cut = slice(None)

    def cut(self, first: int, end: int) -> None:
        """Look at these iterations only."""
        self._cut = slice(first, end)

    @property
    def keys(self) -> set[Key]:
        """Everything that any of the runs has."""
        return {key for run in self.runs for key in run.series}

    def values(self, keys: Iterable[Key]) -> list[Values]:
        """Return, for each run, the sum of these series per iteration."""
        chosen = sorted(keys)
        return [self._of_run(run, chosen) for run in self.runs]

    def total(self, wanted: Callable[[Key], bool]) -> list[Values]:
        """Return the sum of all series of which that holds."""
        return self.values(key for key in self.keys if wanted(key))

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
        if not self._is_corrected or run.overhead is None:
            return 1.0
        if key[0] == CPU or (key[0] == WALL and key[4] == "running"):
            return 1.0 - run.overhead.get(key[2], 0.0)
        return 1.0


def _content(run: Run) -> tuple[int, bytes]:
    """Return what tells runs apart that are not alike."""
    wall = sorted(key for key in run.series if key[0] in {WALL, PROCESS})
    return run.length, b"".join(run.series[key].tobytes() for key in wall)
