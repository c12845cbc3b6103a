"""A comparison as an answer: a sentence, what changed most, and what could not be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.compare.comparison import DIFFERENT
from rlscope_analysis.compare.run import CPU, PROCESS, RECORDING, SEEN_TIME, WALL
from rlscope_analysis.compare.spread import BLOCKS, NOTHING
from rlscope_analysis.result.column import Column, Role, Scale, Unit
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.table import Answer, Table, total_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlscope_analysis.compare.changes import Change
    from rlscope_analysis.compare.comparison import Comparison
    from rlscope_analysis.compare.program import Counted
    from rlscope_analysis.compare.spread import Difference

# So much of either table, with all asked for or not.
FIRST_SCREEN = 5
_LABELS = ("time", "place", "operation", "layer", "cause")
_TITLES = {
    WALL: "what an iteration takes as long as it does for, by the critical path",
    CPU: "CPU time of all processes, per iteration",
}
_SENTENCE_ROWS = 3
# What is said of the fastest iterations of a sum.
_FASTEST = ("base", "new", "low", "high")
# From such a part of an iteration on it is said how much of it other programs took.
_MUCH = 0.02


def answer_of(found: Comparison, *, is_first_screen: bool) -> Answer:
    """Lay a comparison out; is_first_screen: the largest changes only."""
    tables = [_parts_table(found, time, is_first_screen) for time in (WALL, CPU)]
    if not is_first_screen:
        tables += [_sums_table(found), _seen_table(found), _counts_table(found), _places(found)]
    columns = _columns(found, role=Role.SHOWN)
    return Answer(
        tables=tuple(table for table in tables if table.rows),
        data=Table("changes", "", columns, [_row(found, c) for c in _sorted(found.changes)]),
        facts=_facts(found),
        opening=tuple(_opening(found)),
        closing=tuple(_closing(found, is_first_screen=is_first_screen)),
        facts_hold_rows=True,
    )


def verdict_note(found: Comparison) -> Note:
    """Return the sentence."""
    cause = found.cause
    return note(
        "compared", verdict=found.verdict,
        duration=_reported(found.duration), own=_reported(found.own),
        cpu=found.cpu and _reported(found.cpu), by_own=max(_taken(found)) > _MUCH,
        is_wall_sure=_is_sure(found, (WALL,)), is_cpu_sure=_is_sure(found, (CPU,)),
        is_cause_sure=bool(cause and found.is_sure(cause)), cause=cause and _named(cause),
        cause_ns=cause and cause.difference.change, steps=found.steps,
    )  # fmt: skip


def _is_sure(found: Comparison, key: tuple[str, ...]) -> bool:
    return any(change.key == key and change.is_sure for change in found.changes)


def _reported(of: Difference) -> dict[str, float | None]:
    return {"base_ns": of.base, "new_ns": of.new, "low_ns": of.low, "high_ns": of.high}


def _named(change: Change) -> dict[str, str | None]:
    """Return the labels of a part; "" where it has none."""
    key = change.key
    if key[0] == PROCESS:
        return {"time": CPU, "place": key[1], "operation": None, "layer": None, "cause": None}
    return dict(zip(_LABELS, (*key, *[None] * (len(_LABELS) - len(key))), strict=True))


def _sorted(changes: Iterable[Change]) -> list[Change]:
    def size(change: Change) -> tuple[float, float, tuple[str, ...]]:
        of = change.difference
        return -abs(of.change), -max(abs(of.base), abs(of.new)), change.key

    return sorted(changes, key=size)


def _columns(found: Comparison, *, role: Role = Role.HIDDEN) -> tuple[Column, ...]:
    steps = () if found.steps is None else (
        Column("change_per_step_ns", Unit.RATE, label="us a step", scale=Scale.US, additive=True),
    )  # fmt: skip
    return (
        Column("time", role=role),
        Column("place", label="in"),
        Column("operation", most=30),
        Column("layer"),
        Column("cause"),
        Column("is_sum", Unit.FLAG, role),
        Column("base_ns", Unit.NS, additive=True),
        Column("new_ns", Unit.NS, additive=True),
        Column("change_ns", Unit.NS, additive=True),
        Column("low_ns", Unit.NS, label="95 %: from"),
        Column("high_ns", Unit.NS, label="to"),
        *steps,
        *(Column(f"fastest_{of}_ns", Unit.NS, Role.HIDDEN) for of in _FASTEST),
        Column("probability", Unit.RATE, Role.HIDDEN),
        Column("is_sure", Unit.FLAG, label="more than noise"),
    )


def _row(found: Comparison, change: Change) -> tuple[Any, ...]:
    of = change.difference
    values: list[Any] = [*_named(change).values(), change.is_sum, of.base, of.new, of.change]
    values += [of.low, of.high]
    if found.steps is not None:
        values.append(of.new / found.steps[1] - of.base / found.steps[0])
    fast = change.fastest
    values += [None] * len(_FASTEST) if fast is None else [getattr(fast, of) for of in _FASTEST]
    return (*values, change.probability, change.is_sure if change.probability is not None else None)


def _parts_table(found: Comparison, time: str, is_first_screen: bool) -> Table:
    columns = _columns(found)
    if time == CPU:
        columns = tuple(c for c in columns if c.name != "cause")
    rows = [c for c in _sorted(found.changes) if c.key[0] == time and not c.is_sum]
    values = [
        tuple(value for column, value in zip(_columns(found), _row(found, c), strict=True)
              if time == WALL or column.name != "cause")
        for c in rows
    ]  # fmt: skip
    columns, values = _worded(columns, values)
    return Table(
        time, _TITLES[time], columns, values, total=total_of(columns, values),
        noun="part", remarks=() if is_first_screen else (note("compared_parts"),),
    )  # fmt: skip


def _sums_table(found: Comparison) -> Table:
    columns = tuple(c for c in _columns(found) if c.name not in {"layer", "cause"})
    columns = (Column("time"), *columns[1:])
    rows = [
        tuple(value for column, value in zip(_columns(found), _row(found, c), strict=True)
              if column.name not in {"layer", "cause"})
        for c in _sorted(found.changes) if c.is_sum
    ]  # fmt: skip
    columns, rows = _worded(columns, rows)
    return Table("sums", "all of it, operations and processes", columns, rows)


def _worded(
    columns: Sequence[Column], rows: Iterable[tuple[Any, ...]]
) -> tuple[tuple[Column, ...], list[tuple[Any, ...]]]:
    """Write the last column, a flag, for people; nothing where it was not looked at."""
    words = {True: "yes", False: "no", None: ""}
    last = columns[-1]
    shown = (*columns[:-1], Column(last.name, label=last.label))
    return shown, [(*row[:-1], words[row[-1]]) for row in rows]


def _seen_table(found: Comparison) -> Table:
    columns = (
        Column("what"), Column("name", most=60), Column("change"),
        Column("base_ns", Unit.NS), Column("new_ns", Unit.NS), Column("change_ns", Unit.NS),
        Column("base_count", Unit.RATE, label="base times"),
        Column("new_count", Unit.RATE, label="new times"),
        Column("is_sure", Unit.FLAG, label="more than noise"),
    )  # fmt: skip
    rows = [tuple(row[column.name] for column in columns) for row in _seen(found)]
    title = "functions, kernels, launches and waits that changed"
    return Table("seen", title, *_worded(columns, rows))


def _seen(found: Comparison) -> list[dict[str, Any]]:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for change in _sorted(found.seen):
        _, kind, name = change.key
        values = dict.fromkeys(("base_ns", "new_ns", "change_ns", "base_count", "new_count"))
        first = {"what": kind, "name": name, "change": "moved", **values, "is_sure": None}
        row = rows.setdefault((kind, name), first)
        unit = "ns" if change.key[0] == SEEN_TIME else "count"
        row |= {f"base_{unit}": change.difference.base, f"new_{unit}": change.difference.new}
        if unit == "ns":
            row["change_ns"] = change.difference.change
        if change.probability is not None:
            row["is_sure"] = bool(row["is_sure"]) or change.is_sure
        if not change.difference.base:
            row["change"] = "came"
        elif not change.difference.new:
            row["change"] = "went"
    return list(rows.values())


def _counts_table(found: Comparison) -> Table:
    columns = (
        Column("what"), Column("base", Unit.RATE), Column("new", Unit.RATE),
        Column("differs", Unit.FLAG),
    )  # fmt: skip
    rows = [(_counted(c), c.base, c.new, c.differs) for c in found.counts]
    return Table("counts", "what the program does in an iteration", columns, rows)


def _counted(of: Counted) -> Note:
    return note("counted", code=of.code, name=of.name)


def _counts(found: Comparison) -> list[dict[str, Any]]:
    return [
        {"what": _counted(c), "code": c.code, "name": c.name or None, "base": c.base,
         "new": c.new, "differs": c.differs}
        for c in found.counts
    ]  # fmt: skip


def _places(found: Comparison) -> Table:
    columns = (Column("fact"), Column("base", most=50), Column("new", most=50))
    title = "what differs of the machine and how it was recorded"
    return Table("environment", title, columns, found.environment)


def _opening(found: Comparison) -> Iterable[Note]:
    yield verdict_note(found)
    differing = [count for count in found.counts if count.differs]
    if found.verdict == DIFFERENT:
        shown = [(c.code, c.name, c.base, c.new) for c in differing[:_SENTENCE_ROWS]]
        yield note("other_program", counts=tuple(shown), more=len(differing) - len(shown))
    if (change := _seen_in_fastest(found)) is not None and change.fastest is not None:
        yield note("by_fastest", of=_reported(change.fastest), what=_named(change))
    units = found.units
    yield note(
        "compared_units", kind=units.kind, base_runs=units.base_runs, new_runs=units.new_runs,
        iterations=units.iterations, left_out=units.first, blocks=units.blocks,
        iteration=found.iteration, is_corrected=found.is_corrected,
    )  # fmt: skip
    of = found.machines
    if of.factor != 1:
        yield note("normalised", factor=of.factor, error=of.error, cpus=of.cpus, speeds=of.speeds)
    gpus = found.gpus
    if gpus.factor != 1:
        yield note("gpus_normalised", factor=gpus.factor, error=gpus.error, gpus=gpus.names,
                   bounds=gpus.bounds)  # fmt: skip


def _seen_in_fastest(found: Comparison) -> Change | None:
    """Return the sum that the verdict stands on, where its mean alone would not have shown it."""
    cause, sums = found.cause, [c for c in found.changes if c.is_sum and c.is_sure]
    if cause is None or cause.is_sure or any(c.telling is c.difference for c in sums):
        return None
    return max(
        sums, key=lambda c: (c.key == cause.key[:3], abs(c.telling.change), c.key), default=None
    )


def _closing(found: Comparison, *, is_first_screen: bool) -> Iterable[Note]:
    if found.environment:
        facts = tuple(found.environment[:_SENTENCE_ROWS])
        yield note("other_environment", facts=facts, more=len(found.environment) - len(facts))
    yield from _not_compared(found)
    if is_first_screen:
        yield note("compared_more", seen=len(_seen(found)))


def _not_compared(found: Comparison) -> Iterable[Note]:
    """Say what the traces do not tell, or the verdict leaves out."""
    if found.units.kind == BLOCKS:
        yield note("one_run_a_side")
    if found.units.kind == NOTHING:
        yield note("no_interval", iterations=found.units.iterations)
    if found.cpu is None:
        yield note("no_cpu_time")
    if found.machines.refused:
        yield note("not_normalised", why=found.machines.refused)
    if found.gpus.factor == 1 and any(fact == "GPUs" for fact, *_ in found.environment):
        yield note("gpus_differ")
    if not found.is_corrected and found.kind == RECORDING:
        yield note("not_corrected")
    if found.steps is None:
        yield note("no_steps")
    taken = _taken(found)
    if max(taken) > _MUCH:
        yield note("time_of_others", base=taken[0], new=taken[1])
    least, most = sorted(found.iterations)
    if most > least:
        yield note("not_all_iterations", base=found.iterations[0], new=found.iterations[1])
    lost = sum(int(run.facts.get("lost") or 0) for run in (*found.base, *found.new))
    if lost:
        yield note("compared_losses", count=lost)


def _taken(found: Comparison) -> tuple[float, float]:
    """Return which part of an iteration programs outside the trace took, on either side."""
    own, whole = found.own, found.duration
    return (
        1 - own.base / whole.base if whole.base else 0.0,
        1 - own.new / whole.new if whole.new else 0.0,
    )


def _normalised(found: Comparison) -> dict[str, Any] | None:
    """Return the factor of the CPU times of BASE; None: they are as measured."""
    of = found.machines
    if of.factor == 1:
        return None
    return {"cpu_factor": of.factor, "error": of.error, "grade": "C", "cpus": list(of.cpus),
            "single_core_mb_s": list(of.speeds)}  # fmt: skip


def _gpus_normalised(found: Comparison) -> dict[str, Any] | None:
    """Return the factor of the times of BASE's GPU; None: they are as measured."""
    of = found.gpus
    if of.factor == 1:
        return None
    return {"gpu_factor": of.factor, "error": of.error, "grade": "C", "gpus": list(of.names),
            "by_memory": of.bounds[0], "by_computing": of.bounds[1]}  # fmt: skip


def _facts(found: Comparison) -> dict[str, Any]:
    units = found.units
    records = [
        dict(zip((c.name for c in _columns(found)), _row(found, change), strict=True))
        for change in _sorted(found.changes)
    ]
    cause = found.cause
    return {
        "verdict": found.verdict,
        "sentence": verdict_note(found),
        "unit": {
            "kind": units.kind, "base_runs": units.base_runs, "new_runs": units.new_runs,
            "iterations": units.iterations, "left_out": units.first, "blocks": units.blocks,
        },
        "kind": found.kind,
        "iteration": found.iteration,
        "is_corrected": found.is_corrected,
        "normalised": _normalised(found),
        "gpus_normalised": _gpus_normalised(found),
        "duration": {**_reported(found.duration), "change_ns": found.duration.change},
        "own_duration": {**_reported(found.own), "change_ns": found.own.change},
        "cpu": found.cpu and {**_reported(found.cpu), "change_ns": found.cpu.change},
        "environment_steps": found.steps and {"base": found.steps[0], "new": found.steps[1]},
        "cause": cause and {**_named(cause), "change_ns": cause.difference.change},
        "changes": [record for record in records if not record["is_sum"]],
        "sums": [record for record in records if record["is_sum"]],
        "seen": _seen(found),
        "counts": _counts(found),
        "environment": [
            {"fact": fact, "base": base, "new": new} for fact, base, new in found.environment
        ],
        "not_compared": list(_not_compared(found)),
        "base": [run.name for run in found.base],
        "new": [run.name for run in found.new],
    }  # fmt: skip
