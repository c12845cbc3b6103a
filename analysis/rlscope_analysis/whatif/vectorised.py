"""A simulator that steps N environments at once: what a step costs is alpha + beta x N.

Measured at several N, and refused where that is no line: what steps differently from some N on
(a compiler, a cache that is too small) cannot be known from other sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.errors import TraceError
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_OFF = 0.20
_LEAST_SIZES = 3


@dataclass(frozen=True, slots=True)
class Vectorised:
    """An operation becomes steps of such a simulator, times in ns."""

    operation: str
    by: str
    envs: int
    alpha_ns: float
    beta_ns: float
    """For each environment."""
    off: float
    """How far the line is from what was measured, at most: a part of that."""
    fused: int = 1
    """So many steps in one call, which costs alpha once."""

    @property
    def step_ns(self) -> float:
        """What one step of all its environments costs."""
        return self.alpha_ns / self.fused + self.beta_ns * self.envs

    def time_ns(self, environment_steps: int) -> float:
        """Return what so many steps of single environments cost. TraceError: none are known."""
        if not environment_steps:
            raise TraceError(
                "cannot be answered: the trace does not tell of environment steps",
                hint="rlscope-trace summarize TRACE tells which phases were found",
            )
        return environment_steps / self.envs * self.step_ns


def sizes_up_to(envs: int) -> list[int]:
    """Return the numbers of environments that are measured for `envs` of them."""
    sizes = {max(1, envs // part) for part in (64, 16, 4, 1)}
    return sorted(sizes if len(sizes) >= _LEAST_SIZES else {*sizes, 2 * envs, 4 * envs})


def fitted(
    operation: str, by: str, envs: int, measured: Sequence[tuple[int, float]], *, fused: int = 1
) -> Vectorised:
    """Fit the line to (environments, ns of a step). Raises TraceError where it is none."""
    sizes = np.array([size for size, _ in measured], dtype=np.float64)
    costs = np.array([ns for _, ns in measured])
    # Each size counts the same, not each nanosecond.
    terms = np.column_stack([np.ones_like(sizes), sizes]) / costs[:, None]
    alpha, beta = _not_negative(terms)
    off = float(np.max(np.abs(terms @ (alpha, beta) - 1)))
    if off > _MOST_OFF:
        listed = ", ".join(f"{ns / 1e3:,.1f} us with {size}" for size, ns in measured)
        raise TraceError(
            f"cannot be answered: what a step of {printable(by)} costs does not grow evenly with"
            f" the number of environments ({listed})",
            hint="--replace with a factory of the very vector predicts that one alone",
        )
    return Vectorised(operation, by, envs, alpha, beta, off, fused)


def _not_negative(terms: np.ndarray) -> tuple[float, float]:
    """Return the least squares for both terms; where one is below 0, the other one alone."""
    both, *_ = np.linalg.lstsq(terms, np.ones(len(terms)), rcond=None)
    if both.min() >= 0:
        return float(both[0]), float(both[1])
    kept = int(both[1] >= 0)
    alone = float(terms[:, kept].sum() / (terms[:, kept] ** 2).sum())
    return (0.0, alone) if kept else (alone, 0.0)
