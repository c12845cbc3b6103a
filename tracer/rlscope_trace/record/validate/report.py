"""A validation as a table for people, or as one JSON object."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rlscope_trace.record.validate.failures import one_line
from rlscope_trace.record.validate.per_operation import timed_overhead_ns

if TYPE_CHECKING:
    from rlscope_trace.record.medians import Estimate
    from rlscope_trace.record.validate.pairs import Pair
    from rlscope_trace.record.validate.verdict import Validation

_NO_TIMERS = (
    "whether these are right operation by operation cannot be known without timers in the program:"
    " see --timers"
)
# Rows below this part of the time on a CPU are left out of the table; JSON has all.
_LEAST_SHARE = 0.001


def render_json(found: Validation) -> str:
    """Return one JSON object: times in ns, figures in percent, shares in percent and points."""
    told: dict[str, Any] = {
        "command": found.asked.command,
        "record_options": found.asked.record_options,
        "pairs_wanted": found.asked.runs,
        "together": found.asked.together,
        "max_bias_percent": found.asked.max_bias,
        "verdict": "biased" if found.is_biased else "ok",
        "figures": asdict(found.figures),
        "per_iteration": asdict(found.iteration) if found.iteration else None,
        "operations": [asdict(row) for row in found.operations],
        "shares": [asdict(row) for row in found.shares],
        "pairs": [_pair(pair) for pair in found.pairs],
        "warnings": found.warnings,
    }
    return json.dumps(told, indent=1) + "\n"


def _pair(pair: Pair) -> dict[str, Any]:
    low_ns, high_ns = pair.trace.interval_ns
    return {
        "first": {True: "traced", False: "untraced", None: "together"}[pair.traced_first],
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


def render_table(found: Validation) -> str:
    """Return the figures with their intervals, the overhead of each operation, and the verdict."""
    lines = [
        f"{len(found.pairs)} pairs of an untraced and a traced run of"
        f" {one_line(found.asked.command)}",
        "",
        f"{'':<34} {'median':>9}  95 % interval",
        *_figure_lines(found),
        "",
        *_iteration_lines(found),
        *_operation_lines(found),
        "",
        *(_share_lines(found) if found.shares else [_NO_TIMERS]),
        "",
        *(f"note: {warning}" for warning in found.warnings),
        _verdict(found),
    ]
    return "\n".join(lines) + "\n"


def _figure_lines(found: Validation) -> list[str]:
    figures, count = found.figures, len(found.pairs)
    lines = [
        _line("CPU time, traced / untraced", figures.inflation),
        _line("  of it overhead, by the trace", figures.overhead),
        _line("CPU time, corrected / untraced", figures.bias),
    ]
    if figures.wall_inflation is not None and figures.wall_bias is not None:
        lines.append(_line("wall time, traced / untraced", figures.wall_inflation))
        lines.append(_line("wall time, corrected / untraced", figures.wall_bias))
    else:
        lines.append("wall time: not measured, as two runs at once share a CPU")
    if figures.timed_inflation is not None:
        lines.append(_line("where there are timers, traced", figures.timed_inflation))
    if figures.timed_bias is not None:
        lines.append(_line("where there are timers, corrected", figures.timed_bias))
    if figures.noise is not None:
        what = "pairs / their median" if found.asked.together else "untraced / next untraced"
        lines.append(_line(f"{what}, either way", figures.noise, sign=""))
    by_costs = f"by the costs alone {figures.covered_by_costs} of {count}"
    if figures.covered is not None:
        within = f"{figures.covered} of {count}"
        lines.append(f"untraced within the interval of the corrected: {within}; {by_costs}")
    return lines


def _line(name: str, value: Estimate, sign: str = "+") -> str:
    interval = ""
    if value.low is not None and value.high is not None:
        interval = f"{value.low:{sign}.2f} .. {value.high:{sign}.2f}"
    return f"{name:<36} {value.median:{sign}7.2f} %  {interval}".rstrip()


def _iteration_lines(found: Validation) -> list[str]:
    per = found.iteration
    if per is None:
        return []
    return [
        f"CPU time per {per.operation} ({per.counts[0]:,} in a run):"
        f" untraced {per.untraced_ns / 1e3:,.1f} us, traced {per.traced_ns / 1e3:,.1f} us,"
        f" corrected {per.corrected_ns / 1e3:,.1f} us",
        "",
    ]


def _operation_lines(found: Validation) -> list[str]:
    whole_ns = sum(row.measured_ns for row in found.operations)
    lines = [
        f"{'operation':<24} {'bucket':<10} {'measured':>12} {'overhead':>12} {'corrected':>12}"
    ]
    lines += [
        f"{row.operation:<24} {row.bucket:<10} {row.measured_ns / 1e6:>9,.1f} ms"
        f" {row.overhead_ns / 1e6:>9,.1f} ms {row.corrected_ns / 1e6:>9,.1f} ms"
        for row in found.operations
        if row.measured_ns >= _LEAST_SHARE * whole_ns
    ]
    return lines


def _share_lines(found: Validation) -> list[str]:
    lines = [
        f"{'share of the CPU time':<24} {'untraced':>9} {'measured':>9} {'corrected':>10}"
        "  error in points"
    ]
    for row in found.shares:
        error = f"{row.error.median:+.2f}"
        if row.error.low is not None and row.error.high is not None:
            error += f" ({row.error.low:+.2f} .. {row.error.high:+.2f})"
        lines.append(
            f"{row.operation:<24} {row.untraced:>7.2f} % {row.measured:>7.2f} %"
            f" {row.corrected:>8.2f} %  {error}"
        )
    return lines


def _verdict(found: Validation) -> str:
    bias, allowed = found.figures.bias.median, f"{found.asked.max_bias:g} %"
    if found.is_biased:
        return f"biased: corrected CPU time is off by {bias:+.2f} %, more than {allowed}"
    return f"ok: corrected CPU time is off by {bias:+.2f} %, at most {allowed} are allowed"
