"""The answers of `whatif`: one prediction, or what would help most."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from rlscope_analysis.result.column import Column, Unit
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import Answer, Table
from rlscope_analysis.whatif.changes import Changes
from rlscope_analysis.whatif.predict import Prediction, Replayer
from rlscope_analysis.whatif.read import read
from rlscope_analysis.window import asked_window

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace

_COLUMNS = (
    Column("change"),
    Column("predicted_ns", Unit.NS, label="iteration"),
    Column("duration_ratio", Unit.SHARE, label="of now"),
    Column("low", Unit.SHARE, label="at least"),
    Column("high", Unit.SHARE, label="at most"),
    Column("grade"),
    Column("reasons", label="why no better grade"),
)
# An operation that waits for others for more of its time is theirs to change.
_WAITS = 0.5
NOT_MODELLED = ("caches", "overhead", "messages", "placement")


def what_if(
    trace: Trace,
    changes: Changes,
    *,
    per: str | None = None,
    most: int | None = None,
    keep: bool = False,
) -> Answer:
    """Predict what changes would do to the iterations of a trace; without any, rank what could.

    per: the range that counts as an iteration; most: so many of them are replayed; keep: ask the
    critical path that was worked out last. Raises TraceError where it cannot be answered.
    """
    replayer = Replayer(read(trace, per, most, keep=keep))
    if changes != Changes():
        return _one(trace, replayer, changes)
    return _answer(trace, replayer, replayer.ranked(), "what would help most", {})


def _one(trace: Trace, replayer: Replayer, changes: Changes) -> Answer:
    found = replayer.predict(changes)
    recorded = replayer.recorded
    steps, seconds = recorded.environment_steps, recorded.duration_ns / 1e9
    shares = {one.operation: replayer.waiting_share(one.operation) for one in changes.scaled}
    facts = {
        "waits_for_others": {name: share for name, share in shares.items() if share > _WAITS},
        "duration_ratio": found.duration_ratio,
        "low": found.low,
        "high": _finite(found.high),
        "grade": found.grade,
        "is_lower_bound": found.is_lower_bound,
        "reasons": list(found.reasons),
        "steps_per_s": steps / seconds if steps else None,
        "predicted_steps_per_s": _steps_per_s(steps, seconds, found, changes),
    }
    return _answer(trace, replayer, [(changes, found)], "prediction", facts)


def _steps_per_s(steps: int, seconds: float, found: Prediction, changes: Changes) -> float | None:
    """Return the rate, where as many steps are taken as before and the ratio is no bound."""
    is_same = not changes.workers and not any(one.is_count for one in changes.scaled)
    if not steps or not is_same or not found.duration_ratio:
        return None
    return steps / seconds / found.duration_ratio


def _answer(
    trace: Trace,
    replayer: Replayer,
    found: list[tuple[Changes, Prediction]],
    title: str,
    facts: dict[str, Any],
) -> Answer:
    recorded, window = replayer.recorded, asked_window(trace.connection)
    count = recorded.replayed
    mean_ns = recorded.duration_ns / count
    rows = [
        (
            note("whatif_change", changes=changes), round(one.duration_ratio * mean_ns),
            one.duration_ratio, one.low, _finite(one.high), one.grade,
            note("whatif_reasons", codes=one.reasons),
        )
        for changes, one in found
    ]  # fmt: skip
    waits = facts.get("waits_for_others", {})
    table = Table(
        "whatif", title, _COLUMNS, rows,
        notes=tuple(
            note("whatif_waits", operation=name, share=share) for name, share in waits.items()
        ),
        remarks=(note("whatif_not_modelled", codes=NOT_MODELLED),),
        noun="change",
    )  # fmt: skip
    head = {
        "iterations": count, "mean_ns": round(mean_ns), "fidelity": replayer.fidelity,
        "is_whole": recorded.is_whole, "of_iterations": len(recorded.durations_ns),
    }  # fmt: skip
    return Answer(
        tables=(table,),
        data=table,
        facts={
            "trace": str(trace.path), "window": window, **head,
            "is_stationary": not replayer.is_drifting, "not_modelled": list(NOT_MODELLED), **facts,
        },
        head=(
            ("trace", str(trace.path)),
            *((("window", str(window)),) if window else ()),
            ("replayed", note("whatif_replayed", **head)),
        ),
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
