"""`rlscope-trace calibrate`: measures what an event of a recording costs on this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path  # noqa: TC003 - typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_analysis.result.column import Column, Scale, Unit
from rlscope_analysis.result.note import note
from rlscope_analysis.result.table import NO_VALUE, Answer, Table
from rlscope_trace.cli import messages
from rlscope_trace.cli.answers import AnswerFormat, FormatOption, render
from rlscope_trace.cli.calibrating import is_good, take
from rlscope_trace.cli.forked import in_a_fork
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.privileges import invoking_identity
from rlscope_trace.rights import become_recorder, become_saver
from rlscope_trace.signals import signals_interrupt
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlscope_trace.record.calibrate.cache import Calibration
    from rlscope_trace.spool.costs import Cost

# A trace of another user that gets its costs stays theirs.
_CHOWN = frozenset({"CAP_CHOWN"})
_COLUMNS = (
    Column("event"),
    Column("part"),
    Column("how", label="by"),
    Column("mean_ns", Unit.RATE, label="mean", scale=Scale.WHOLE),
    Column("stddev_ns", Unit.RATE, label="stddev", scale=Scale.WHOLE),
    Column("n", Unit.COUNT),
    Column("low_ns", Unit.RATE, label="95 % from", scale=Scale.WHOLE),
    Column("high_ns", Unit.RATE, label="to", scale=Scale.WHOLE),
    Column("quality"),
)


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
    output_format: FormatOption = AnswerFormat.TABLE,
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


def _calibrate(traces: list[Path], output_format: AnswerFormat, *, force: bool) -> None:
    from rlscope_trace.record.calibrate import cache

    become_recorder(invoking_identity(), more=_CHOWN)
    directory, key = cache.cache_directory(), cache.machine_key()
    # They may be anybody's, and what measures needs rights that reading them does not.
    checked = in_a_fork(partial(_checked, traces, key)) if traces else {}
    known, reason = cache.load(directory, key)
    if reason:
        messages.note(f"{reason}; measuring again")
    if known is None or force or not known.is_full:
        known = take(directory, key)
    elif checked and not is_good(directory, known):
        # The traces would keep it.
        known = take(directory, key)
    if checked:
        from rlscope_analysis.spill import spill_directory

        # All rights of a recorder go before anything of a trace is asked, which is code, too.
        become_saver(None, *checked, scratch=spill_directory(), more=_CHOWN)
    for path, trace_facts in checked.items():
        from rlscope_trace.cli.calibrate_trace import add_costs

        add_costs(path, trace_facts, known)
        command = shell_line(["rlscope-trace", "summarize", str(path), "--view", "corrected"])
        messages.say(f"added the costs to {path}: {command}")
    if checked:
        return
    write_stdout(render(_answer_of(known), output_format, limit=None))


def _checked(traces: Sequence[Path], key: dict[str, str]) -> dict[Path, dict[str, object]]:
    """Return the facts of the traces; raise for the first that cannot have the costs."""
    from rlscope_trace.cli.calibrate_trace import check_trace
    from rlscope_trace.cli.reading import write_nothing_but

    write_nothing_but(*traces)
    return {path: check_trace(path, key) for path in traces}


def _answer_of(known: Calibration) -> Answer:
    """Lay out a line per cost; ns of CPU time."""
    facts = known.facts
    shown = {name: facts.get(name) for name in ("taken", "duration_s", "load")}
    table = Table("costs", "", _COLUMNS, list(map(_row, known.costs)))
    return Answer(
        tables=(table,),
        data=table,
        facts={**facts, "costs": known.costs},
        closing=(note("cost_units"), note("cost_taken", **shown)),
        facts_hold_rows=True,
    )


def _row(cost: Cost) -> tuple[object, ...]:
    """Return its values; what was not measured is no 0."""
    numbers = (cost.mean_ns, cost.stddev_ns, cost.n or None, cost.low_ns, cost.high_ns)
    known = [NO_VALUE if number is None else number for number in numbers]
    quality = note("cost_quality", quality=cost.quality.columns)
    return (cost.event, cost.part or NO_VALUE, cost.how or NO_VALUE, *known, quality)
