"""The answer of `balance`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.balance.demand import Demand, demand_of
from rlscope_analysis.result.column import Column, Unit
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import Answer, Table
from rlscope_analysis.window import asked_window

if TYPE_CHECKING:
    from rlscope_analysis.result.table import Values
    from rlscope_analysis.trace import Trace

_ACTORS = (1, 2, 4, 8, 16)


def balance(trace: Trace, *, per: str | None = None) -> Answer:
    """Tell what a step demands, what limits the rate, and what other counts of workers allow.

    per: the range that counts as an iteration. Raises TraceError where no step is known.
    """
    found = demand_of(trace, per)
    tables = [_demands(found)]
    # A bound that idle CPUs make worthless is no number to show.
    if found.actors and not found.is_idle_beside:
        tables.append(_bounds(found))
    window = asked_window(trace.connection)
    balanced = found.cpu_ns / found.gpu_ns if found.gpu_ns else None
    facts = {
        "steps_per_s": found.steps_per_s, "cpus": found.cpus, "cpus_used": found.cpus_used,
        "actors": found.actors, "run_queue_ns_per_step": found.runnable_ns,
        "balanced_cpus_per_gpu": balanced,
        "threads_per_sm": _per(found.cpus, found.multiprocessors),
        "balanced_threads_per_sm": _per(balanced, found.multiprocessors),
        "limit": found.limit, "knee": found.knee if len(tables) > 1 else None,
        "joules_per_step": found.joules,
    }  # fmt: skip
    return Answer(
        tables=tuple(tables),
        data=tables[0],
        facts={"trace": str(trace.path), "window": window, **facts, "bounds": [
            row for table in tables[1:] for row in table.records()
        ]},
        head=(
            ("trace", str(trace.path)),
            *((("window", str(window)),) if window else ()),
            ("balance", note("balance_verdict", **facts, steps=found.steps)),
        ),
    )  # fmt: skip


def _per(value: float | None, count: int | None) -> float | None:
    return value / count if value is not None and count else None


def _demands(found: Demand) -> Table:
    limits = found.limits_ns
    rows: list[Values] = [
        (note("balance_demand", of="cpu"), found.cpu_ns, limits["cpu"], 1e9 / limits["cpu"]),
        (note("balance_demand", of="thread"), found.thread_ns, limits["thread"],
         1e9 / limits["thread"] if limits["thread"] else None),
        (note("balance_demand", of="gpu"), found.gpu_ns, limits.get("gpu"),
         1e9 / found.gpu_ns if found.gpu_ns else None),
        (note("balance_demand", of="run queue"), found.runnable_ns, None, None),
    ]  # fmt: skip
    columns = (
        Column("per_step"),
        Column("demand_ns", Unit.NS, label="demand"),
        Column("least_ns", Unit.NS, label="least time of a step"),
        Column("most_steps_per_s", Unit.RATE, label="most steps/s"),
    )
    notes = (note("balance_idle_beside"),) if found.is_idle_beside else ()
    return Table(
        "demand", "what an environment step demands", columns, rows, notes=notes,
        remarks=(note("balance_energy", joules=found.joules),),
    )  # fmt: skip


def _bounds(found: Demand) -> Table:
    rows = [
        (count, found.most_steps_per_s(count), found.steps_per_s if count == found.actors else None)
        for count in sorted({*_ACTORS, found.actors})
    ]
    columns = (
        Column("actors", Unit.COUNT, label="worker processes"),
        Column("most_steps_per_s", Unit.RATE, label="at most steps/s"),
        Column("steps_per_s", Unit.RATE, label="measured"),
    )
    return Table("bounds", "upper bounds by the number of workers", columns, rows)
