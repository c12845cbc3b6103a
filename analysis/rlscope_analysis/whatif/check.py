"""Holds a prediction to a trace of the program that was really changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscope_analysis.errors import TraceError
from rlscope_analysis.result.column import Column, Unit
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import Answer, Table
from rlscope_analysis.whatif.predict import Replayer
from rlscope_analysis.whatif.read import read

if TYPE_CHECKING:
    from rlscope_analysis.trace import Trace
    from rlscope_analysis.whatif.changes import Changes

_COLUMNS = (
    Column("change"),
    Column("duration_ratio", Unit.SHARE, label="predicted"),
    Column("low", Unit.SHARE, label="at least"),
    Column("high", Unit.SHARE, label="at most"),
    Column("measured_ratio", Unit.SHARE, label="measured"),
    Column("error", Unit.SHARE),
    Column("held", Unit.FLAG),
    Column("grade"),
)


def check(before: Trace, after: Trace, changes: Changes, *, per: str | None = None) -> Answer:
    """Predict changes from one trace, and measure them in another: mean iterations of both.

    Raises TraceError where one of them has no iterations to compare, or nothing can be predicted.
    """
    replayer = Replayer(read(before, per))
    changed = read(after, per)
    if replayer.recorded.is_whole or changed.is_whole:
        raise TraceError(
            "cannot be answered: a trace without iterations is not held to another",
            hint="--per OPERATION names the range that counts as one",
        )
    found = replayer.predict(changes)
    measured = float(changed.durations_ns.mean() / replayer.recorded.durations_ns.mean())
    is_held = found.low <= measured <= found.high
    error = None if found.is_lower_bound else found.duration_ratio / measured - 1
    high = None if found.is_lower_bound else found.high
    row = (
        note("whatif_change", changes=changes), found.duration_ratio, found.low, high, measured,
        error, is_held, found.grade,
    )  # fmt: skip
    table = Table("check", "prediction, held to what was measured", _COLUMNS, [row])
    return Answer(
        tables=(table,),
        data=table,
        facts={
            "before": str(before.path), "after": str(after.path),
            "change": note("whatif_change", changes=changes),
            "duration_ratio": found.duration_ratio, "low": found.low, "high": high,
            "measured_ratio": measured, "error": error, "held": is_held, "grade": found.grade,
            "fidelity": replayer.fidelity,
        },
        head=(("before", str(before.path)), ("after", str(after.path))),
    )  # fmt: skip
