"""Whether both sides ran the same program: counts that it decides, and no clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.compare.run import COUNT
from rlscope_analysis.compare.spread import difference

if TYPE_CHECKING:
    from rlscope_analysis.compare.side import Side
    from rlscope_analysis.compare.spread import Units, Values

# Of counts that vary between iterations: so much more, and so unlikely, is another program.
_LEAST_PART, _LEAST_PROBABILITY = 0.02, 0.001


@dataclass(frozen=True, slots=True)
class Counted:
    """How often something happened in an iteration, on average; None: on that side never."""

    what: str
    base: float
    new: float
    differs: bool


def counts_of(base: Side, new: Side, units: Units) -> list[Counted]:
    """Return all counts, those that differ first."""
    found = []
    for key in sorted(key for key in base.keys | new.keys if key[0] == COUNT):
        sides = [side.values([key]) for side in (base, new)]
        means = [math.fsum(float(run.mean()) for run in side) / len(side) for side in sides]
        differs = means[0] != means[1] and _differs(sides, means, units)
        found.append(Counted(key[1], means[0], means[1], differs))
    return sorted(found, key=lambda row: not row.differs)


def _differs(sides: list[list[Values]], means: list[float], units: Units) -> bool:
    """Tell whether it is more than what varies anyway, as where an episode happens to end."""
    base, new = (np.concatenate(side) for side in sides)
    if min(base.max(), new.max()) < max(base.min(), new.min()):
        return True
    if abs(means[1] - means[0]) < _LEAST_PART * max(map(abs, means)):
        return False
    probability = difference(sides[0], sides[1], units).probability
    return probability is not None and probability < _LEAST_PROBABILITY
