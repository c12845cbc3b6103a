"""A validation as an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlscope_analysis.result.column import Column, Scale, Unit
from rlscope_analysis.result.note import Note, note
from rlscope_analysis.result.table import NO_VALUE, Answer, Table
from rlscope_trace.record.validate.failures import one_line
from rlscope_trace.record.validate.per_operation import timed_overhead_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_trace.record.medians import Estimate
    from rlscope_trace.record.validate.pairs import Pair
    from rlscope_trace.record.validate.verdict import Validation

# Rows below this part of the time on a CPU are left out of the table; JSON has all.
_LEAST_SHARE = 0.001


def _percent(name: str, label: str) -> Column:
    return Column(name, Unit.RATE, label=label, scale=Scale.TWO_DIGITS)


_INTERVAL = (_percent("low", "95 % from"), _percent("high", "to"))
_FIGURES = (Column("figure"), _percent("median", "median %"), *_INTERVAL)
_OPERATIONS = (
    Column("operation"), Column("bucket"), Column("measured_ns", Unit.NS),
    Column("overhead_ns", Unit.NS), Column("corrected_ns", Unit.NS),
)  # fmt: skip
_SHARES = (
    Column("operation", label="share of the CPU time"), _percent("untraced", "untraced %"),
    _percent("measured", "measured %"), _percent("corrected", "corrected %"),
    _percent("error", "error in points"), *_INTERVAL,
)  # fmt: skip


def answer_of(found: Validation) -> Answer:
    """Return the figures with their intervals, the overhead of each operation, and the verdict.

    JSON has times in ns, figures in percent, shares in percent and points.
    """
    figures = Table("figures", "", _FIGURES, list(_figures(found)), remarks=tuple(_remarks(found)))
    return Answer(
        tables=(figures, *_tables(found)),
        data=figures,
        facts=_facts(found),
        opening=(
            note("validated", pairs=len(found.pairs), command=one_line(found.asked.command)),
        ),
        closing=(
            *(note("doubt", words=warning) for warning in found.warnings),
            note(
                "validated_bias", bias=found.figures.bias.median, biased=found.is_biased,
                allowed=found.asked.max_bias,
            ),
        ),
        facts_hold_rows=True,
    )  # fmt: skip


def _facts(found: Validation) -> dict[str, Any]:
    return {
        "command": found.asked.command,
        "record_options": found.asked.record_options,
        "pairs_wanted": found.asked.runs,
        "max_bias_percent": found.asked.max_bias,
        "verdict": "biased" if found.is_biased else "ok",
        "figures": found.figures,
        "per_iteration": found.iteration,
        "operations": found.operations,
        "shares": found.shares,
        "pairs": [_pair(pair) for pair in found.pairs],
        "warnings": found.warnings,
    }


def _pair(pair: Pair) -> dict[str, Any]:
    low_ns, high_ns = pair.trace.interval_ns
    return {
        "first": "traced" if pair.traced_first else "untraced",
        "untraced_cpu_ns": pair.untraced.cpu_ns,
        "traced_cpu_ns": pair.traced.cpu_ns,
        "corrected_cpu_ns": pair.corrected_ns,
        "overhead_ns": pair.trace.overhead_ns,
        "overhead_low_ns": low_ns,
        "overhead_high_ns": high_ns,
        "untraced_wall_ns": pair.untraced.wall_ns,
        "traced_wall_ns": pair.traced.wall_ns,
        "wall_overhead_ns": pair.trace.wall_overhead_ns,
        "untraced_timers_ns": dict(pair.untraced.timers_ns),
        "traced_timers_ns": dict(pair.traced.timers_ns),
        "timed_overhead_ns": timed_overhead_ns(pair) if pair.traced.timers_ns else None,
        "lost": pair.trace.lost,
    }


def _figures(found: Validation) -> Iterator[tuple[object, ...]]:
    of = found.figures
    rows = (
        ("CPU time, traced / untraced", of.inflation),
        ("  of it overhead, by the trace", of.overhead),
        ("CPU time, corrected / untraced", of.bias),
        ("wall time, traced / untraced", of.wall_inflation),
        ("wall time, corrected / untraced", of.wall_bias),
        ("where there are timers, traced", of.timed_inflation),
        ("where there are timers, corrected", of.timed_bias),
        ("untraced / next untraced, either way", of.noise),
    )
    for name, value in rows:
        if value is not None:
            yield name, value.median, *_interval(value)


def _interval(value: Estimate) -> tuple[object, object]:
    if value.low is None or value.high is None:
        return NO_VALUE, NO_VALUE
    return value.low, value.high


def _remarks(found: Validation) -> Iterator[Note]:
    of, per = found.figures, found.iteration
    if of.covered is not None:
        yield note(
            "validated_covered", covered=of.covered, by_costs=of.covered_by_costs,
            pairs=len(found.pairs),
        )  # fmt: skip
    if per is not None:
        yield note(
            "validated_iteration", operation=per.operation, count=per.counts[0],
            untraced_ns=per.untraced_ns, traced_ns=per.traced_ns, corrected_ns=per.corrected_ns,
        )  # fmt: skip


def _tables(found: Validation) -> Iterator[Table]:
    whole_ns = sum(row.measured_ns for row in found.operations)
    operations = [
        (row.operation, row.bucket, row.measured_ns, row.overhead_ns, row.corrected_ns)
        for row in found.operations
        if row.measured_ns >= _LEAST_SHARE * whole_ns
    ]
    remarks = () if found.shares else (note("no_timers"),)
    yield Table("operations", "", _OPERATIONS, operations, remarks=remarks)
    if found.shares:
        shares = [
            (row.operation, row.untraced, row.measured, row.corrected, row.error.median,
             *_interval(row.error))
            for row in found.shares
        ]  # fmt: skip
        yield Table("shares", "", _SHARES, shares)
