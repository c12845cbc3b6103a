"""The answer of `balance --sweep`: rates that were measured, beside what one run predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlscope_analysis.result.column import Column, Unit
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.table import Answer, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_analysis.balance.demand import Demand
    from rlscope_analysis.result.table import Values


@dataclass(frozen=True, slots=True)
class Point:
    """One value and what a run with it demanded; None: that run tells nothing."""

    value: str
    demand: Demand | None

    @property
    def actors(self) -> int:
        """How many worker processes it had."""
        return self.demand.actors if self.demand else 0


def base_of(points: Sequence[Point]) -> Point | None:
    """Return the run that predicts the others: the first with two workers or more, or with one.

    None: no run has workers, or threads waited beside idle CPUs in all of them.
    """
    useful = [p for p in points if p.demand and p.actors and not p.demand.is_idle_beside]
    return next((p for p in useful if p.actors > 1), useful[0] if useful else None)


def swept(name: str, points: Sequence[Point]) -> Answer:
    """Tell what was measured at each value of `name`, and the bound that one run gives for it."""
    base = base_of(points)
    table = _table(name, points, base)
    measured = [(p.value, p.demand) for p in points if p.demand]
    best, demand = max(measured, key=lambda pair: pair[1].steps_per_s)
    facts = {
        "parameter": name, "base": base.value if base else None, "best": best,
        "best_steps_per_s": demand.steps_per_s,
    }  # fmt: skip
    verdict = note("sweep_verdict", **facts, limit=demand.limit)
    return Answer(
        tables=(table,), data=table, facts=facts, head=(("balance", verdict),),
        closing=tuple(_drawing(name, points, base)),
    )  # fmt: skip


def _bound(point: Point, base: Point | None) -> float | None:
    """Return the most steps per second that the base allows with as many workers."""
    if base is None or base.demand is None or not point.actors:
        return None
    return base.demand.most_steps_per_s(point.actors)


def _table(name: str, points: Sequence[Point], base: Point | None) -> Table:
    rows: list[Values] = []
    for point in points:
        found, bound = point.demand, _bound(point, base)
        rows.append((
            point.value,
            *((None,) * 5 if found is None else (
                found.actors, found.steps_per_s, found.cpus_used, found.runnable_ns,
                note("sweep_limit", limit=found.limit),
            )),
            bound,
            found.steps_per_s / bound if found and bound else None,
        ))  # fmt: skip
    columns = (
        Column("value", label=name),
        Column("actors", Unit.COUNT, label="worker processes"),
        Column("steps_per_s", Unit.RATE, label="steps/s"),
        Column("cpus_used", Unit.RATE, label="CPUs used"),
        Column("runnable_ns", Unit.NS, label="waiting for a CPU per step"),
        Column("limit"),
        Column("most_steps_per_s", Unit.RATE, label="at most steps/s"),
        Column("bound_share", Unit.SHARE, label="of that reached"),
    )
    notes = [note("sweep_no_bound")] if base is None else [note("sweep_base", value=base.value)]
    if any(p.demand is None for p in points):
        notes.append(note("sweep_not_measured"))
    return Table("sweep", "measured rates of environment steps", columns, rows, notes=tuple(notes))


def _drawing(name: str, points: Sequence[Point], base: Point | None) -> list[Note]:
    """Draw each rate as a bar, and the bound as a mark."""
    bounds = [_bound(p, base) for p in points]
    rates = [p.demand.steps_per_s if p.demand else None for p in points]
    most = max([number for number in (*bounds, *rates) if number] or [1.0])
    width = max(len(f"{name}={p.value}") for p in points)
    return [
        note(
            "sweep_bar", label=f"{name}={p.value}".ljust(width),
            rate=rate and rate / most, bound=bound and bound / most,
        )
        for p, rate, bound in zip(points, rates, bounds, strict=True)
    ]  # fmt: skip
