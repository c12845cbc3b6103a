"""Student's t for whole degrees of freedom, and the control of many tests at once.

The distribution has a closed form there (Abramowitz and Stegun, 26.7.3 and 26.7.4).
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def two_sided(t: float, freedom: int) -> float:
    """Return the probability of |T| > |t|; freedom: the degrees of freedom, at least 1."""
    if math.isinf(t):
        return 0.0
    angle = math.atan2(abs(t), math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    if freedom % 2:
        term, total = cosine, 0.0
        for step in range(1, freedom - 1, 2):
            total += term
            term *= cosine * cosine * (step + 1) / (step + 2)
        inside = 2 / math.pi * (angle + sine * total)
    else:
        term, total = 1.0, 0.0
        for step in range(0, freedom, 2):
            total += term
            term *= cosine * cosine * (step + 1) / (step + 2)
        inside = sine * total
    return min(1.0, max(0.0, 1.0 - inside))


@cache
def quantile(level: float, freedom: int) -> float:
    """Return the t that |T| does not exceed with this probability."""
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > 1 - level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > 1 - level else (low, middle)
    return high


def adjusted(probabilities: Sequence[float]) -> list[float]:
    """Return them for the false discovery rate (Benjamini and Hochberg), in the same order."""
    order = sorted(range(len(probabilities)), key=lambda at: -probabilities[at])
    found, least = [1.0] * len(probabilities), 1.0
    for place, at in enumerate(order):
        least = min(least, probabilities[at] * len(order) / (len(order) - place))
        found[at] = least
    return found
