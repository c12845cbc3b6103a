"""Times of one GPU as they would be on another: wave scaling, as Habitat does (ATC 2021).

A kernel that is bound by memory takes as long as the bandwidths say, one that computes as long as
multiprocessors and clocks say, and most lie between. Which one is where was not measured: the
factor is the geometric mean of the two, and may be off by as much as they are apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.compare.run import Run

GPU_SPEED = "gpu_speed"
_SIZES = ("multiprocessors", "clock_hz", "memory_bandwidth")
_MOST_SIZE = 1e18
# Habitat is off by that, on the mean, where it knows what bounds each kernel.
_LEAST_ERROR = 0.12
# A GPU is not so much faster than another: what says so is damaged.
_MOST_RATIO = 1000.0
GPU_SPEED_SQL = f"""
SELECT DISTINCT name, {", ".join(_SIZES)} FROM gpu_device
WHERE device_id IN (SELECT device_id FROM gpu_activity_coded) LIMIT 2
"""  # noqa: S608 - names of our own


@dataclass(frozen=True, slots=True)
class Gpus:
    """What is known of the GPUs of both sides."""

    factor: float = 1.0
    """Times of BASE's GPU are multiplied by it; 1: as measured."""
    error: float = 0.0
    """The standard error of the factor, as a part of it."""
    bounds: tuple[float, float] = (1.0, 1.0)
    """The factor of what memory bounds, and of what computing does."""
    names: tuple[str, str] = ("", "")


def gpu_speed_of(rows: Sequence[tuple[Any, ...]]) -> dict[str, str | int] | None:
    """Return how fast the GPUs that worked can be; None: they differ, or it is not known."""
    if len(rows) != 1:
        return None
    return known_gpu_speed(dict(zip(("name", *_SIZES), rows[0], strict=True)))


def known_gpu_speed(value: object) -> dict[str, str | int] | None:
    """Return it where it has the shape of one; it may come from a stranger."""
    if not isinstance(value, dict) or not isinstance(name := value.get("name"), str):
        return None
    sizes = {size: value.get(size) for size in _SIZES}
    found = {
        key: size
        for key, size in sizes.items()
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size < _MOST_SIZE
    }
    return {"name": name, **found} if len(found) == len(_SIZES) else None


def gpus_of(base: Sequence[Run], new: Sequence[Run]) -> Gpus:
    """Return the factor between the GPUs of both sides: 1 where they are the same, or not known."""
    before, after = _one_of(base), _one_of(new)
    if before is None or after is None or before == after:
        return Gpus()
    memory = before["memory_bandwidth"] / after["memory_bandwidth"]
    computing = _cycles(before) / _cycles(after)
    if not all(1 / _MOST_RATIO < ratio < _MOST_RATIO for ratio in (memory, computing)):
        return Gpus()
    return Gpus(
        factor=math.sqrt(memory * computing),
        error=max(_LEAST_ERROR, abs(math.log(memory / computing)) / 2),
        bounds=(memory, computing),
        names=(before["name"], after["name"]),
    )


def _one_of(runs: Sequence[Run]) -> dict[str, Any] | None:
    """Return what all runs of a side have; None where they differ, or one does not tell."""
    found = [run.facts.get(GPU_SPEED) for run in runs]
    return found[0] if all(one == found[0] for one in found) else None


def _cycles(speed: dict[str, Any]) -> float:
    return float(speed["multiprocessors"]) * float(speed["clock_hz"])
