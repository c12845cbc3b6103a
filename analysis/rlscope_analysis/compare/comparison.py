"""Compares two sides of runs: what differs, where, and whether that is more than noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rlscope_analysis.compare.changes import (
    Change,
    changes_of,
    difference_of,
    family_of,
    is_identical,
    is_own,
    seen_changes,
)  # fmt: skip
from rlscope_analysis.compare.environment import environment_differences
from rlscope_analysis.compare.gpu_speed import Gpus, gpus_of
from rlscope_analysis.compare.normalise import Machines, machines_of
from rlscope_analysis.compare.program import Counted, counts_of
from rlscope_analysis.compare.run import COUNT, CPU, STEPS, WALL
from rlscope_analysis.compare.side import Scale, Side
from rlscope_analysis.compare.spread import (
    BLOCKS,
    NOTHING,
    Difference,
    Units,
    units_of,
    warm_up,
)
from rlscope_analysis.compare.student import adjusted
from rlscope_analysis.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlscope_analysis.compare.run import Key, Run

SAME, BETTER, WORSE, DIFFERENT, UNKNOWN = "same", "better", "worse", "different", "unknown"
# How often a comparison of a program with itself may say that it changed: that of sums (both
# totals, and operations), and that of their parts by layer and cause.
_LEVEL_OF_SUMS, _LEVEL_OF_PARTS = 0.04, 0.01
# A smaller part of an iteration, or of its CPU time, is not worth a verdict.
LEAST_PART = 0.002
# Nothing was found, and so much would have been: the same.
SAME_WITHIN = 0.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is known of the difference of NEW from BASE; times in ns per iteration."""

    verdict: str
    units: Units
    kind: str
    iteration: str
    is_corrected: bool
    duration: Difference
    """Of an iteration."""
    own: Difference
    """The same without what programs outside the trace took."""
    cpu: Difference | None
    """CPU time of all processes; None: not recorded."""
    steps: tuple[float, float] | None
    """Environment steps per iteration of each side; None: not known."""
    changes: list[Change]
    """Parts, of which those of the path add up to the change of the duration; and sums."""
    seen: list[Change]
    counts: list[Counted]
    environment: list[tuple[str, str | None, str | None]]
    base: Sequence[Run]
    new: Sequence[Run]
    iterations: tuple[int, int]
    """The fewest iterations that a run of each side has."""
    machines: Machines
    gpus: Gpus
    has_layers: bool = True
    sides: tuple[Side, Side] = field(default=None, repr=False)  # type: ignore[assignment]

    @property
    def cause(self) -> Change | None:
        """The change that the verdict is about; None: there is none."""
        sign = {BETTER: -1, WORSE: 1}.get(self.verdict, 0)
        parts = [c for c in self.changes if not c.is_sum and is_own(c.key)]
        keys = self._sure_keys()
        if self.verdict != SAME and sign:
            parts = [c for c in parts if c.difference.change * sign > 0]
        sure = [c for c in parts if c.is_sure or c.key[:3] in keys]
        if not sure and self.verdict == SAME:
            return None
        of_path = [c for c in sure if c.key[0] == WALL]
        return max(of_path or sure or parts, key=lambda c: abs(c.difference.change), default=None)

    def is_sure(self, part: Change) -> bool:
        """Tell whether a part changed by more than noise, or the operation that it is of did."""
        return part.is_sure or part.key[:3] in self._sure_keys()

    def _sure_keys(self) -> set[Key]:
        return {change.key for change in self.changes if change.is_sure}


def compare(base: Sequence[Run], new: Sequence[Run]) -> Comparison:
    """Compare runs of two sides. Raises TraceError where their kinds or iterations differ."""
    _check(base, new)
    is_corrected = all(run.overhead is not None for run in (*base, *new))
    machines, gpus = machines_of(base, new), gpus_of(base, new)
    sides = (
        Side(
            base,
            is_corrected=is_corrected,
            cpu=Scale(machines.factor, machines.error),
            gpu=Scale(gpus.factor, gpus.error),
        ),
        Side(new, is_corrected=is_corrected),
    )
    lengths = tuple(min(run.length for run in side.runs) for side in sides)
    units = _units(sides, min(lengths))
    for side in sides:
        side.cut(units.first, units.end)
    changes = _tested(changes_of(*sides, units), units)
    path = {key for side in sides for key in side.keys if key[0] == WALL}
    duration = difference_of(path, *sides, units)
    has_cpu = all(run.facts.get("states") for run in (*base, *new))
    by_key = {change.key: change.difference for change in changes}
    counts = counts_of(*sides, units)
    steps = next((row for row in counts if (COUNT, row.code, row.name) == STEPS), None)
    found = Comparison(
        verdict=UNKNOWN, units=units, kind=base[0].kind, iteration=base[0].iteration,
        is_corrected=is_corrected, duration=duration, own=by_key[(WALL,)],
        cpu=by_key.get((CPU,)) if has_cpu else None,
        steps=(steps.base, steps.new) if steps and steps.base and steps.new else None,
        changes=changes, seen=seen_changes(*sides, units, duration), counts=counts,
        environment=environment_differences(base, new), base=sides[0].runs, new=sides[1].runs,
        iterations=(lengths[0], lengths[1]), sides=sides, machines=machines,
        gpus=gpus,
    )  # fmt: skip
    return replace(found, verdict=_verdict(found))


def _check(base: Sequence[Run], new: Sequence[Run]) -> None:
    kinds = sorted({run.kind for run in (*base, *new)})
    if len(kinds) > 1:
        raise TraceError(
            f"traces of different kinds cannot be compared: {' and '.join(kinds)} measure different"
            " things",
            hint="compare recordings with recordings, imports with imports of the same profiler",
        )
    iterations = sorted({run.iteration for run in (*base, *new)})
    if len(iterations) > 1:
        raise TraceError(
            f"an iteration is not the same on all sides: {' and '.join(iterations)}",
            hint="--per NAME: the operation that counts as an iteration in all of them",
        )


def _units(sides: tuple[Side, Side], end: int) -> Units:
    durations = []
    for side in sides:
        side.cut(0, end)
        durations += side.total(lambda key: key[0] == WALL and is_own(key))
    # The first iteration is slower in most programs.
    first = max(warm_up(durations), 1 if end > 2 else 0)
    return units_of(len(sides[0].runs), len(sides[1].runs), first, end)


def _tested(changes: list[Change], units: Units) -> list[Change]:
    """Say of each change whether it is more than noise, however many there are to look at."""
    totals = {change.key[0]: change for change in changes if len(change.key) == 1}
    sure: set[tuple[str, ...]] = set()
    probabilities: dict[tuple[str, ...], float] = {}
    for family, level in _families(changes, totals, units):
        known = [c for c in family if c.telling.probability is not None]
        found = adjusted([c.telling.probability or 0.0 for c in known])
        for change, probability in zip(known, found, strict=True):
            probabilities[change.key] = probability
            whole = totals[change.key[0]].difference
            least = LEAST_PART * max(abs(whole.base), abs(whole.new))
            if probability <= level and abs(change.telling.change) >= least:
                sure.add(change.key)
        if units.kind == BLOCKS and not sure:
            break
    return [
        replace(c, is_sure=c.key in sure, probability=probabilities.get(c.key)) for c in changes
    ]


def _families(
    changes: Sequence[Change], totals: Mapping[str, Change], units: Units
) -> list[tuple[list[Change], float]]:
    """Return what is looked at together, with the level.

    Of one run a side the next is looked at only if something in those before has changed: how much
    operations and parts differ between runs cannot be told from one (where three workers wait for
    each other, by half and more).
    """
    looked_at = [c for c in changes if family_of(c, totals, units)]
    sums, parts = [c for c in looked_at if c.is_sum], [c for c in looked_at if not c.is_sum]
    if units.kind != BLOCKS:
        return [(sums, _LEVEL_OF_SUMS), (parts, _LEVEL_OF_PARTS)]
    whole, operations = [c for c in sums if len(c.key) == 1], [c for c in sums if len(c.key) > 1]
    return [(whole, _LEVEL_OF_SUMS), (operations, _LEVEL_OF_SUMS), (parts, _LEVEL_OF_PARTS)]


def _verdict(found: Comparison) -> str:
    if any(count.differs for count in found.counts):
        return DIFFERENT
    sure = [change for change in found.changes if change.is_sure]
    if sure:
        return WORSE if _direction(sure) > 0 else BETTER
    as_measured = found.machines.factor == found.gpus.factor == 1
    if as_measured and is_identical(*found.sides, found.units):
        return SAME
    if found.units.kind == NOTHING:
        return UNKNOWN
    # CPU time says nothing of kernels that are scaled.
    cpu = found.cpu if found.gpus.factor == 1 else None
    known = [d for d in (found.own, cpu) if d is not None and d.base]
    return SAME if any(_is_narrow(d) for d in known) else UNKNOWN


def _is_narrow(of: Difference) -> bool:
    if of.low is None or of.high is None:
        return False
    return max(abs(of.low), abs(of.high)) <= SAME_WITHIN * abs(of.base)


def _direction(sure: list[Change]) -> float:
    """Return a number above 0 where NEW is worse: by the duration, else by what changed most."""
    whole = [c for c in sure if c.key == (WALL,)]
    most = max(whole or sure, key=lambda c: (abs(c.telling.change), c.key))
    return most.telling.change
