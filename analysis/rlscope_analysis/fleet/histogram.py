"""Quantiles of times that are counted by steps of 2^(1/8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

STEPS = 8
"""In each doubling: the middle of a step is off by 4.4 % at most."""


def quantile(counts: Mapping[int, int], part: float) -> int | None:
    """Return the time in ns that `part` of all are at most as long as; None: there are none."""
    whole = sum(counts.values())
    reached = 0
    for step in sorted(counts):
        reached += counts[step]
        if reached >= part * whole:
            return int(2.0 ** ((step + 0.5) / STEPS))
    return None
