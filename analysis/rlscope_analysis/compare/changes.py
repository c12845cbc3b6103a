"""The parts of an iteration on both sides, and by how much they differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlscope_analysis.compare.run import (
    CPU,
    OF_OTHERS,
    PROCESS,
    SEEN_COUNT,
    SEEN_TIME,
    WALL,
    Key,
)  # fmt: skip
from rlscope_analysis.compare.spread import (
    BLOCKS,
    RUNS,
    Difference,
    between_runs,
    difference,
    fastest,
)
from rlscope_analysis.compare.student import adjusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlscope_analysis.compare.side import Side
    from rlscope_analysis.compare.spread import Units

# A smaller part of the iteration is not looked at.
_LEAST_SHARE, _LEAST_SEEN = 0.01, 0.002
# Kernels of a few ms are worth a row, also where an iteration takes a minute.
_LEAST_OF_KIND = 0.01
# So much narrower is no chance of few runs.
_CLEARLY_LESS = 0.8
# Which of these there are is no chance; of the others it may be.
_DECIDED = frozenset({"kernel", "copy", "graph", "launch"})
_SAMPLED = frozenset({"function"})
_SEEN_LEVEL = 0.05
# What is looked at: wall and CPU time.
_TIMES = (WALL, CPU)
# What no program decides: it differs between runs.
_OF_TIME = frozenset({*_TIMES, PROCESS, SEEN_TIME})


@dataclass(frozen=True, slots=True)
class Change:
    """A part of an iteration, or a sum of parts, on both sides."""

    key: Key
    """As in run.py; of a sum it is shorter: ("wall",) is all, ("wall", place, operation) one."""
    difference: Difference
    is_sum: bool
    is_sure: bool = False
    """Whether it is more than noise, with all that was looked at in mind."""
    probability: float | None = None
    """That of the difference, adjusted for all that was looked at; None: not looked at."""
    fastest: Difference | None = None
    """Of the fastest tenth of the iterations; None: not of a sum of times, or too few runs."""

    @property
    def telling(self) -> Difference:
        """All iterations, or the fastest ones where runs of one side differ less in these.

        Chosen by the width of the interval, not by the difference, so that nobody looks twice.
        """
        of, fast = self.difference, self.fastest
        return of if fast is None or fast.reach > _CLEARLY_LESS * of.reach else fast


def is_own(key: Key) -> bool:
    """Tell whether a part says something of the traced program."""
    return key[0] != WALL or len(key) < 5 or key[4] not in OF_OTHERS


def difference_of(keys: Iterable[Key], base: Side, new: Side, units: Units) -> Difference:
    """Hold the sums of these series against each other."""
    keys = list(keys)
    values = base.values(keys), new.values(keys)
    least = between_runs(*values, units) if all(key[0] in _OF_TIME for key in keys) else 0.0
    return difference(*values, units, doubt=base.doubt(keys), least_error=least)


def changes_of(base: Side, new: Side, units: Units) -> list[Change]:
    """Return the parts of wall and CPU time, and their sums without the time of others."""
    keys = sorted(key for key in base.keys | new.keys if key[0] in _TIMES)
    found = [Change(key, difference_of([key], base, new, units), is_sum=False) for key in keys]
    sums: dict[Key, list[Key]] = {(WALL,): []}
    for key in filter(is_own, keys):
        sums.setdefault(key[:1], []).append(key)
        sums.setdefault(key[:3], []).append(key)
    for key in sorted(key for key in base.keys | new.keys if key[0] == PROCESS):
        sums[key] = [key]
    return found + [
        Change(
            key, difference_of(parts, base, new, units), is_sum=True,
            fastest=_fastest_of(parts, base, new, units),
        )
        for key, parts in sums.items()
    ]  # fmt: skip


def _fastest_of(keys: Sequence[Key], base: Side, new: Side, units: Units) -> Difference | None:
    """Hold the fastest iterations of runs against each other.

    A baseline keeps none; layers of one iteration are known from too few samples.
    """
    if units.kind != RUNS or not (base.has_iterations and new.has_iterations):
        return None
    before, after = (fastest(side.values(keys)) for side in (base, new))
    if not before or not after:
        return None
    return difference(before, after, units, doubt=base.doubt(keys))


def family_of(change: Change, totals: Mapping[str, Change], units: Units) -> bool:
    """Tell whether it is one of those that the verdict looks at.

    Which layers an operation ran in is known from samples, whose error is that of a run, not of a
    block of iterations: of one run a side only the sum over the layers is looked at.
    """
    if change.key[0] == PROCESS or not is_own(change.key):
        return False
    if units.kind == BLOCKS and not change.is_sum and change.key[3]:
        return False
    whole = totals[change.key[0]].difference
    most = max(abs(change.difference.base), abs(change.difference.new))
    return most >= _LEAST_SHARE * max(abs(whole.base), abs(whole.new)) and most > 0


def seen_changes(base: Side, new: Side, units: Units, duration: Difference) -> list[Change]:
    """Return the functions, kernels, waits ... that came, went, or take another time or number.

    Where there is no interval, or what the program decides came or went, that is so; of the rest
    it is left out what may be noise.
    """
    keys = _seen_keys(base, new)
    least = _least_seen(keys, base, new, duration)
    found = []
    for key in keys:
        of = difference_of([key], base, new, units)
        time = key if key[0] == SEEN_TIME else (SEEN_TIME, *key[1:])
        if of.change and _most(time, base, new) >= least[key[1]]:
            found.append(Change(key, of, is_sum=False))
    known = [c for c in found if c.difference.probability is not None]
    probabilities = adjusted([c.difference.probability or 0.0 for c in known])
    of_key = {c.key: probability for c, probability in zip(known, probabilities, strict=True)}
    sure = {key for key, probability in of_key.items() if probability <= _SEEN_LEVEL}
    return [
        replace(c, is_sure=c.key in sure, probability=of_key.get(c.key))
        for c in found
        if c.key in sure or c.key not in of_key or _came_or_went(c)
    ]


def _seen_keys(base: Side, new: Side) -> list[Key]:
    """Return what was looked for on both sides: a baseline keeps none, and not all sample."""
    kinds = [{key[1] for key in side.keys if key[0] == SEEN_TIME} for side in (base, new)]
    if not all(kinds):
        return []
    missing = {kind for kind in _SAMPLED if not all(kind in side for side in kinds)}
    keys = (key for key in base.keys | new.keys if key[0] in {SEEN_TIME, SEEN_COUNT})
    return sorted(key for key in keys if key[1] not in missing)


def _least_seen(
    keys: Iterable[Key], base: Side, new: Side, duration: Difference
) -> dict[str, float]:
    """Return, for each kind, the time that is worth a row: of an iteration, or of its kind."""
    of_iteration = _LEAST_SEEN * max(duration.base, duration.new)
    totals: dict[str, float] = {}
    for key in keys:
        time = _most(key, base, new) if key[0] == SEEN_TIME else 0.0
        totals[key[1]] = totals.get(key[1], 0.0) + time
    return {kind: min(of_iteration, _LEAST_OF_KIND * total) for kind, total in totals.items()}


def _most(key: Key, base: Side, new: Side) -> float:
    return max(float(run.mean()) for side in (base, new) for run in side.values([key]))


def _came_or_went(change: Change) -> bool:
    of = change.difference
    return change.key[1] in _DECIDED and not (of.base and of.new)


def is_identical(base: Side, new: Side, units: Units) -> bool:
    """Tell whether nothing at all differs, however small, of what is known of both sides."""
    seen = set(_seen_keys(base, new))
    keys = (k for k in base.keys | new.keys if k in seen or k[0] not in {SEEN_TIME, SEEN_COUNT})
    return not any(difference_of([key], base, new, units).change for key in sorted(keys))
