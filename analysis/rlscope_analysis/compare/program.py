"""Whether both sides ran the same program: counts that it decides, and no clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.compare.run import COUNT, COUNTS
from rlscope_analysis.compare.spread import difference

if TYPE_CHECKING:
    from rlscope_analysis.compare.side import Side
    from rlscope_analysis.compare.spread import Units, Values

# Of counts that vary between iterations: so much more, and so unlikely, is another program.
_LEAST_PART, _LEAST_PROBABILITY = 0.02, 0.001
# Of a few values: what lies so many times as far away as they vary is no chance.
_FAR = 4


@dataclass(frozen=True, slots=True)
class Counted:
    """How often something happened in an iteration, on average; None: on that side never."""

    code: str
    """One of COUNTS."""
    name: str
    """Of the operation; "": it is of none."""
    base: float
    new: float
    differs: bool


def counts_of(base: Side, new: Side, units: Units) -> list[Counted]:
    """Return all counts, those that differ first."""
    found = []
    keys = {key for key in base.keys | new.keys if key[0] == COUNT}
    for key in sorted(keys, key=lambda key: (COUNTS.index(key[1]), key[2])):
        sides = [side.values([key]) for side in (base, new)]
        means = [math.fsum(float(run.mean()) for run in side) / len(side) for side in sides]
        differs = means[0] != means[1] and _differs(sides, means, units)
        found.append(Counted(key[1], key[2], means[0], means[1], differs))
    return sorted(found, key=lambda row: not row.differs)


def _differs(sides: list[list[Values]], means: list[float], units: Units) -> bool:
    """Tell whether it is more than what varies anyway, as where an episode happens to end."""
    base, new = (np.concatenate(side) for side in sides)
    if _are_apart(base, new):
        return True
    if abs(means[1] - means[0]) < _LEAST_PART * max(map(abs, means)):
        return False
    # Runs that happen to have the same mean say nothing of how much counts vary.
    probability = difference(sides[0], sides[1], units, least_error=_error(*sides)).probability
    return probability is not None and probability < _LEAST_PROBABILITY


def _are_apart(base: Values, new: Values) -> bool:
    """Tell whether no value of one side lies among those of the other, and not by chance."""
    gap = max(base.min(), new.min()) - min(base.max(), new.max())
    spread = max(np.ptp(base), np.ptp(new))
    # Of so many values, were they of one kind, that is how rarely each half is one side's.
    by_chance = 2 * math.exp(
        math.lgamma(len(base) + 1)
        + math.lgamma(len(new) + 1)
        - math.lgamma(len(base) + len(new) + 1)
    )
    return bool(gap > 0 and (gap > _FAR * spread or by_chance < _LEAST_PROBABILITY))


def _error(base: list[Values], new: list[Values]) -> float:
    """Return the standard error of the difference of the means were iterations independent."""
    variances = (
        float(run.var()) / len(run) / len(side) ** 2 for side in (base, new) for run in side
    )
    return math.sqrt(math.fsum(sorted(variances)))
