"""Times of one machine as they would be on another: by the speed that each trace says was measured.

A program is no deflate: how far the factor may be off is taken from how much the two probes, of
computing and of memory, disagree. It is an estimate, of grade C.
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlscope_analysis.compare.run import Run

PROBES = "probes"
SINGLE_CORE, MEMORY = "single_core_mb_s", "memory_mb_s"
_WORDS, _SPEEDS = ("cpu", "deflate"), (SINGLE_CORE, MEMORY)
# Of machines with the same CPU: closer speeds are those of one machine, at two times.
_LEAST_RATIO = 1.15
# A probe repeats itself to within that on a machine that others use.
_LEAST_ERROR = 0.05
# A machine is not so much faster than another: what says so is damaged.
_MOST_RATIO = 100.0
_MOST_MB_S = 1e9
# Why times are as measured.
SAME_MACHINE, NOT_MEASURED, MIXED = "", "not_measured", "mixed"


@dataclass(frozen=True, slots=True)
class Machines:
    """What is known of the machines of both sides."""

    factor: float = 1.0
    """CPU times of BASE are multiplied by it; 1: as measured."""
    error: float = 0.0
    """The standard error of the factor, as a part of it."""
    cpus: tuple[str, str] = ("", "")
    speeds: tuple[float, float] = (0.0, 0.0)
    """MB/s of deflate on one core."""
    refused: str = SAME_MACHINE
    """Why times are as measured although the machines differ: not_measured, or mixed."""


def probes_of(meta: Mapping[str, str]) -> dict[str, str | float]:
    """Return what a trace says of the speed of its machine; it may come from a stranger."""
    try:
        return known_probes(json.loads(meta.get(PROBES) or "{}"))
    except (ValueError, RecursionError):
        return {}


def known_probes(value: object) -> dict[str, str | float]:
    """Return those of the probes that have the shape of one."""
    if not isinstance(value, dict):
        return {}
    words: dict[str, str | float] = {
        name: word for name in _WORDS if isinstance(word := value.get(name), str) and word
    }
    speeds = {
        name: float(speed)
        for name in _SPEEDS
        if isinstance(speed := value.get(name), (int, float))
        and not isinstance(speed, bool)
        and 0 < speed < _MOST_MB_S
    }
    return words | speeds


def machines_of(base: Sequence[Run], new: Sequence[Run]) -> Machines:
    """Tell whether both sides ran on machines that are as fast, and the factor if not."""
    cpus = [_words(side, "cpu") for side in (base, new)]
    are_named = all(cpus) and not any("not known" in names for names in cpus)
    is_other = are_named and cpus[0] != cpus[1]
    # Only where every run tells, and none of a side ran elsewhere, is there one factor.
    if any(len(names) > 1 for names in cpus):
        return Machines(refused=MIXED)
    names = ("".join(cpus[0]), "".join(cpus[1]))
    single = [_speeds(side, SINGLE_CORE) for side in (base, new)]
    deflate = _words(base, "deflate") | _words(new, "deflate")
    if not all(single) or len(deflate) != 1:
        return Machines(cpus=names, refused=NOT_MEASURED if is_other else SAME_MACHINE)
    speeds = statistics.median(single[0]), statistics.median(single[1])
    factor = speeds[0] / speeds[1]
    if not 1 / _MOST_RATIO < factor < _MOST_RATIO:
        return Machines(cpus=names, refused=NOT_MEASURED)
    if not is_other and (max(factor, 1 / factor) < _LEAST_RATIO or not _are_apart(*single)):
        return Machines(cpus=names)
    memory = [_speeds(side, MEMORY) for side in (base, new)]
    error = _LEAST_ERROR
    if all(memory):
        of_memory = statistics.median(memory[0]) / statistics.median(memory[1])
        error = max(error, abs(math.log(factor / of_memory)) / 2)
    return Machines(factor, error, names, speeds)


def _words(runs: Sequence[Run], name: str) -> set[str]:
    found = (run.facts.get(PROBES, {}).get(name) or run.environment.get(name) for run in runs)
    return {word for word in found if word}


def _speeds(runs: Sequence[Run], name: str) -> list[float]:
    """Return what was measured; nothing where a run does not tell."""
    found = [run.facts.get(PROBES, {}).get(name) for run in runs]
    return [] if None in found else [float(speed) for speed in found if speed is not None]


def _are_apart(base: Sequence[float], new: Sequence[float]) -> bool:
    return min(base) > max(new) or min(new) > max(base)
