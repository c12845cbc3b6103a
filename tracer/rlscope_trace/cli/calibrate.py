"""`rlscope-trace calibrate`: measures what an event of a recording costs on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import Enum
from pathlib import Path  # noqa: TC003 - typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_analysis.sentences import quality_sentence
from rlscope_trace.cli import messages
from rlscope_trace.cli.calibrating import is_good, take
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.privileges import invoking_identity
from rlscope_trace.rights import become_recorder
from rlscope_trace.signals import signals_interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.calibrate.cache import Calibration
    from rlscope_trace.spool.costs import Cost

_COLUMNS = ("event", "part", "by", "mean", "stddev", "n", "95 % interval", "quality")


class CalibrateFormat(str, Enum):
    """How the costs are printed."""

    TABLE = "table"
    JSON = "json"


def calibrate(
    traces: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[TRACE]...",
            help="Add the costs to traces that were recorded here without, because their target"
            " still ran.",
            show_default=False,
        ),
    ] = None,
    output_format: Annotated[
        CalibrateFormat, typer.Option("--format", help="Print a table, or JSON.")
    ] = CalibrateFormat.TABLE,
    force: Annotated[
        bool, typer.Option("--force", help="Measure again, whatever is known already.")
    ] = False,
) -> None:
    """Measure what each kind of recorded event costs the traced program, in about 27 s.

    The result is kept for this machine, its OS kernel and this version; a recording takes a shorter
    one by itself where there is none. Best on a machine that does nothing else.
    """
    # From its first process on: a scheduler or a closed terminal ends it in order.
    with signals_interrupt():
        _calibrate(traces or [], output_format, force=force)


def _calibrate(traces: list[Path], output_format: CalibrateFormat, *, force: bool) -> None:
    from rlscope_trace.record.calibrate import cache

    # A trace of another user that gets its costs stays theirs.
    become_recorder(invoking_identity(), more=frozenset({"CAP_CHOWN"}))
    directory, key = cache.cache_directory(), cache.machine_key()
    checked = _checked(traces, key)
    known, reason = cache.load(directory, key)
    if reason:
        messages.note(f"{reason}; measuring again")
    if known is None or force or not known.is_full:
        known = take(directory, key)
    elif checked and not is_good(directory, known):
        # The traces would keep it.
        known = take(directory, key)
    for path, trace_facts in checked.items():
        from rlscope_trace.cli.calibrate_trace import add_costs

        add_costs(path, trace_facts, known)
        messages.say(f"added the costs to {path}: rlscope-trace summarize {path} --view corrected")
    if checked:
        return
    render = _as_json if output_format is CalibrateFormat.JSON else _as_table
    write_stdout([render(known)])


def _checked(traces: Sequence[Path], key: dict[str, str]) -> dict[Path, dict[str, object]]:
    """Return the facts of the traces; raise for the first that cannot have the costs."""
    if not traces:
        return {}
    from rlscope_trace.cli.calibrate_trace import check_trace

    return {path: check_trace(path, key) for path in traces}


def _as_json(known: Calibration) -> str:
    """Return one object: the facts, and a list of costs."""
    told = {**known.facts, "costs": [asdict(cost) for cost in known.costs]}
    return json.dumps(told, indent=2) + "\n"


def _as_table(known: Calibration) -> str:
    """Return a line per cost; ns of CPU time."""
    rows = [_COLUMNS, *(_columns_of(cost) for cost in known.costs)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    lines = [_line(row, widths) for row in rows]
    return "\n".join([*lines, "", *_facts(known)]) + "\n"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    # Numbers to the right, words to the left; the last one is as long as it is.
    columns = [
        text.rjust(width) if 3 <= at <= 6 else text.ljust(width)
        for at, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(columns).rstrip()


def _columns_of(cost: Cost) -> tuple[str, ...]:
    interval = ""
    if cost.low_ns is not None and cost.high_ns is not None:
        interval = f"{cost.low_ns:,.0f} .. {cost.high_ns:,.0f}"
    return (
        cost.event, cost.part or "", cost.how, _number(cost.mean_ns),
        _number(cost.stddev_ns), str(cost.n) if cost.n else "", interval,
        quality_sentence(*cost.quality.columns),
    )  # fmt: skip


def _number(value_ns: float | None) -> str:
    return "" if value_ns is None else f"{value_ns:,.0f}"


def _facts(known: Calibration) -> list[str]:
    facts = known.facts
    return [
        "ns of CPU time per event; inside: part of what the event measures of itself",
        f"taken {facts.get('taken')} in {facts.get('duration_s')} s, load {facts.get('load')}",
    ]
