"""Limits to a comparison: did something get worse by more than is allowed, or is that unknown."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rlscope_analysis.compare.changes import is_own
from rlscope_analysis.compare.run import CPU, GPU_BUSY, STEPS, WALL
from rlscope_analysis.compare.spread import (
    LEVEL,
    NOTHING,
    Difference,
    between_runs,
    difference,
)
from rlscope_analysis.compare.student import quantile
from rlscope_analysis.errors import QuestionError, TraceError
from rlscope_analysis.wording import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.compare.comparison import Comparison
    from rlscope_analysis.compare.run import Key
    from rlscope_analysis.compare.side import Side
    from rlscope_analysis.compare.spread import Values

OK, WORSE, CANNOT_TELL = "ok", "worse", "cannot tell"
_LIMIT = re.compile(r"(?P<what>.+)=\+?(?P<most>\d+(?:\.\d+)?)(?P<unit>%|pp|ms|us)")
_SCALES = {"%": 0.01, "pp": 0.01, "ms": 1e6, "us": 1e3}
GPU_IDLE = "gpu_idle"
_SHARES = frozenset({GPU_IDLE})
_NAMED = frozenset({"iteration", "step", CPU, GPU_IDLE})
# So many names are shown to who asks for one that is not there.
_MOST_NAMES = 20
# More runs than this are asked of nobody.
MOST_RUNS = 1000


@dataclass(frozen=True, slots=True)
class Limit:
    """By how much something may be more."""

    what: str
    """iteration, step, cpu, gpu_idle, an operation, or cpu:OPERATION."""
    most: float
    """A part of BASE (%), of 1 (pp), or ns."""
    unit: str
    """%, pp, ms, us."""
    text: str


@dataclass(frozen=True, slots=True)
class Held:
    """A limit, and what it was held against."""

    limit: Limit
    outcome: str
    difference: Difference
    """ns per iteration or step; of a share parts of 1."""
    allowed: float
    """The most by which it may change, likewise."""
    runs: int | None
    """How many runs a side would decide it; None: it is decided, or more than MOST_RUNS."""


def limit_of(text: str) -> Limit:
    """Read iteration=+3%. Raises QuestionError where it is none."""
    found = _LIMIT.fullmatch(text)
    hint = "--max iteration=+3%, --max gpu_idle=+5pp, --max simulation=+2ms"
    if found is None:
        raise QuestionError(f"{text!r} is no limit", hint=hint)
    what, unit = found["what"], found["unit"]
    if (unit == "pp") != (what in _SHARES):
        kind = "a share: its limit is in pp" if what in _SHARES else "a time: it has no pp"
        raise QuestionError(f"{what} is {kind}", hint=hint)
    return Limit(what, float(found["most"]) * _SCALES[unit], unit, text)


def held(found: Comparison, limits: Sequence[Limit]) -> list[Held]:
    """Hold a comparison against limits. Raises TraceError where a limit is of nothing there."""
    # All limits together raise a false alarm as seldom as one would.
    level = 1 - (1 - LEVEL) / len(limits)
    return [_held(found, limit, level) for limit in limits]


def _held(found: Comparison, limit: Limit, level: float) -> Held:
    _check_is_there(found, limit.what)
    base, new = (_values(side, limit.what) for side in found.sides)
    doubt = _doubt(found.sides[0], limit.what)
    least = between_runs(base, new, found.units)
    of = difference(base, new, found.units, level=level, doubt=doubt, least_error=least)
    allowed = limit.most * of.base if limit.unit == "%" else limit.most
    if found.units.kind == NOTHING or of.low is None or of.high is None:
        outcome = OK if of.change == 0 else CANNOT_TELL
    elif of.low > allowed:
        outcome = WORSE
    else:
        outcome = OK if of.high <= allowed else CANNOT_TELL
    runs = _runs_needed(found, of, allowed, level) if outcome == CANNOT_TELL else None
    return Held(limit, outcome, of, allowed, runs)


def _values(side: Side, what: str) -> list[Values]:
    """Return what a limit is about, per iteration of each run."""
    duration = side.values(_keys(side, "iteration"))
    if what == "iteration":
        return duration
    if what == "step":
        steps = side.values([STEPS])
        if not all(run.sum() > 0 for run in steps):
            raise TraceError("the traces tell of no environment steps", hint="--max iteration=+3%")
        return [run / of.mean() for run, of in zip(duration, steps, strict=True)]
    if what == GPU_IDLE:
        whole = side.total(lambda key: key[0] == WALL)
        busy = side.values([(GPU_BUSY,)])
        if not any(run.any() for run in busy):
            raise TraceError("the traces tell of no GPU", hint="--max iteration=+3%")
        # What takes no time is not idle.
        return [
            1 - np.divide(b, w, np.ones_like(w), where=w > b)
            for b, w in zip(busy, whole, strict=True)
        ]
    return side.values(_keys(side, what))


def _check_is_there(found: Comparison, what: str) -> None:
    """Raise TraceError where neither side has it; one that has none of it took no time for it."""
    if _is_of_cpu(what) and found.cpu is None:
        raise TraceError("the traces tell of no CPU time", hint="--max iteration=+3%")
    if what in _NAMED or any(run.any() for s in found.sides for run in s.values(_keys(s, what))):
        return
    names = sorted({key[2] for s in found.sides for key in s.keys if key[0] in {WALL, CPU}})
    shown = ", ".join(printable(name) for name in names[:_MOST_NAMES])
    more = f", and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    raise TraceError(
        f"nothing is called {what!r}",
        hint=f"iteration, step, cpu, {GPU_IDLE}, cpu:OPERATION, or: {shown}{more}",
    )


def _is_of_cpu(what: str) -> bool:
    """Tell cpu and cpu:OPERATION from an operation that is called so, as cpu_collate."""
    return what == CPU or what.startswith(f"{CPU}:")


def _keys(side: Side, what: str) -> list[Key]:
    """Return the parts whose sum a limit of time is about."""
    time, operation = (CPU, what.removeprefix("cpu:")) if _is_of_cpu(what) else (WALL, what)
    is_all = what in {"iteration", "step", "cpu"}
    return [
        key for key in side.keys
        if key[0] == time and is_own(key) and (is_all or key[2] == operation)
    ]  # fmt: skip


def _doubt(side: Side, what: str) -> float:
    """Return what the factor between two machines adds to the standard error of a value."""
    if what == GPU_IDLE:
        whole = [key for key in side.keys if key[0] == WALL]
        mean = float(np.mean([run.mean() for run in side.values(whole)]))
        # At the most: all of the iteration idle.
        return side.doubt(whole) / mean if mean else 0.0
    doubt = side.doubt(_keys(side, what))
    if what == "step":
        return doubt / float(np.mean([run.mean() for run in side.values([STEPS])]))
    return doubt


def _runs_needed(found: Comparison, of: Difference, allowed: float, level: float) -> int | None:
    """Estimate how many runs a side make the interval end before the limit, as things look now."""
    gap = abs(allowed - of.change)
    units = found.units
    if of.low is None or of.high is None or not gap:
        return None
    counts = (units.base_runs, units.new_runs)
    freedom = max(sum(counts) - 2, 1) if sum(counts) > 2 else max(units.blocks - 1, 1)
    error = (of.high - of.low) / 2 / quantile(level, freedom)
    # Of a difference of one run a side the error is that of two runs.
    spread = error / math.sqrt(1 / counts[0] + 1 / counts[1])
    for runs in range(2, MOST_RUNS + 1):
        if quantile(level, 2 * runs - 2) * spread * math.sqrt(2 / runs) <= gap:
            return max(runs, max(counts) + 1)
    return None


def outcome_of(results: Sequence[Held]) -> str:
    """Return what all limits together say."""
    found = {result.outcome for result in results}
    return next((worst for worst in (WORSE, CANNOT_TELL) if worst in found), OK)
