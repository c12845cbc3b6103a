"""What a trace says about itself: it travels along, so that no viewer loses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.sentences import coverage_sentence, facts_of, loss_sentence
from rlscope_analysis.window import origin_ns

if TYPE_CHECKING:
    from rlscope_analysis.export.plan import Plan

# One value of a fact.
Value = str | int | None
_PARAMETERS = ("subject", "detail", "count", "ts_ns", "duration_ns")
# Of each table; 3,000 processes have so many facts. What is said of one takes 3 kB of memory.
_MOST_ROWS = 50_000
# The tables that are no timeline, and their columns, by the name they go under.
_TABLES = {
    "coverage": (
        "coverage",
        f"process_id, kind, measured, part, code, {', '.join(_PARAMETERS)}",
    ),
    "loss": ("trace_stat", "kind, code, count, first_ns, cpu, record, pid, bytes, detail"),
    "gpu_device": (
        "gpu_device",
        "host, device_id, name, uuid, memory_bytes, multiprocessors, compute_capability",
    ),
    "clock": ("clock", "ts_ns, realtime_ns, boottime_ns"),
}


def read_facts(plan: Plan) -> dict[str, list[dict[str, Value]]]:
    """Return the rows of the small tables, by what they go under; times are those of the trace.

    `export` says what of the trace is in the file, where that is not all of it as it is.
    """
    connection = plan.connection
    meta = connection.execute("SELECT key, value FROM meta WHERE key IS NOT NULL").fetchall()
    facts: dict[str, list[dict[str, Value]]] = {"meta": [dict(meta)], "export": []}
    changes: dict[str, Value] = {}
    if plan.window is not None:
        changes |= {"from_ns": plan.window.start_ns, "to_ns": plan.window.end_ns}
    if plan.shift_ns:
        changes["time_shift_ns"] = plan.shift_ns
    for label, (table, columns) in _TABLES.items():
        query = f"SELECT {columns} FROM {table} ORDER BY ALL LIMIT {_MOST_ROWS}"  # noqa: S608
        names = columns.split(", ")
        facts[label] = [
            dict(zip(names, row, strict=True)) for row in connection.execute(query).fetchall()
        ]
        ((count,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608
        if count > _MOST_ROWS:
            changes[f"{label}_left_out"] = count - _MOST_ROWS
    if changes:
        facts["export"].append(changes)
    _add_sentences(facts, origin_ns(connection))
    return facts


def _add_sentences(facts: dict[str, list[dict[str, Value]]], first_ns: int) -> None:
    """Say in words what the codes stand for: a viewer has nothing else that could."""
    for row in facts["loss"]:
        row["source"], row["remedy"] = loss_sentence(_text(row["code"]), row)
    for row in facts["coverage"]:
        named = {name: row[name] for name in ("code", *_PARAMETERS)}
        is_measured = bool(row["measured"])
        row["reason"] = coverage_sentence(
            facts_of([named]), measured=is_measured, origin_ns=first_ns
        )


def _text(value: Value) -> str | None:
    return None if value is None else str(value)
