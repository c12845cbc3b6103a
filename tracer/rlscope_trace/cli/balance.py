"""`rlscope-trace balance`: what an environment step demands of CPUs, threads and GPU."""

import re
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.balance.answer import balance as balanced
from rlscope_analysis.balance.demand import Demand, demand_of
from rlscope_analysis.balance.sweep import Point, swept
from rlscope_analysis.damage import damage_reported
from rlscope_analysis.errors import TraceError
from rlscope_analysis.trace import open_trace
from rlscope_analysis.wording import printable
from rlscope_trace.cli import messages
from rlscope_trace.cli.answers import (
    AnswerFormat,
    FormatOption,
    FromOption,
    PerOption,
    ToOption,
    render,
    telling_interrupts,
)
from rlscope_trace.cli.forked import in_a_fork
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.program_runs import (
    ProgramCommand,
    folder_for_traces,
    program_of,
    record_run,
)
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.scratch import new_folder
from rlscope_trace.errors import TracerError, UsageError

CommandClass = ProgramCommand
_MOST_VALUES = 100
_FILE_NAME = re.compile(r"[^A-Za-z0-9.-]")
_HINT = "rlscope-trace balance --sweep actors=1,2,4 -- python train.py --actors {actors}"


def balance(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    trace: Annotated[Path | None, typer.Argument(help="The trace.", show_default=False)] = None,
    per: PerOption = None,
    start: FromOption = None,
    end: ToOption = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Record the program after -- with each value in the place of {NAME}, and show"
            " the measured rates beside the bounds.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Keep the traces of --sweep in a new folder.", show_default=False
        ),
    ] = None,
    output_format: FormatOption = AnswerFormat.TABLE,
) -> None:
    """Tell whether CPUs, one thread or the GPU limit the rate of environment steps.

    Rates for other numbers of workers are upper bounds. With --sweep they are measured:
    rlscope-trace balance --sweep actors=1,2,4 -- python train.py --actors {actors}.
    """
    program = program_of(context)
    if sweep is not None:
        if trace is not None or start or end:
            raise UsageError("--sweep records traces of its own", hint=_HINT)
        _sweep(*_values(sweep, program), program, keep, per, output_format)
        return
    if trace is None or program or keep is not None:
        raise UsageError(
            "a trace is missing" if trace is None else "a program, and what is kept of it, is for"
            " --sweep",
            hint="rlscope-trace balance run.duckdb",
        )  # fmt: skip
    write_nothing_but()
    with (
        telling_interrupts(),
        sweeping() as progress,
        damage_reported(trace),
        open_trace(trace, start=start, end=end, progress=progress) as opened,
    ):
        chunks = list(render(balanced(opened, per=per), output_format, limit=None))
    write_stdout(chunks, is_data=output_format is AnswerFormat.CSV)


def _values(sweep: str, program: Sequence[str]) -> tuple[str, list[str]]:
    """Return what is swept, and its values. Raises UsageError."""
    name, _, listed = sweep.partition("=")
    values = list(dict.fromkeys(value.strip() for value in listed.split(",")))
    if not re.fullmatch(r"\w+", name) or not all(values) or len(values) > _MOST_VALUES:
        raise UsageError(f"--sweep {sweep[:100]} names no values", hint=_HINT)
    if not program:
        raise UsageError("no program to run", hint=_HINT)
    if not any(f"{{{name}}}" in word for word in program):
        raise UsageError(f"the program does not take {{{name}}}", hint=_HINT)
    return name, values


def _sweep(  # noqa: PLR0913 - the options
    name: str, values: Sequence[str], program: Sequence[str], keep: Path | None, per: str | None,
    output_format: AnswerFormat,
) -> None:  # fmt: skip
    points: list[Point] = []
    is_interrupted = False
    with folder_for_traces() as folder, new_folder(keep) if keep else nullcontext(folder) as kept:
        try:
            for number, value in enumerate(values):
                messages.say(f"{name}={printable(value)}: run {number + 1} of {len(values)}")
                trace = kept / f"{number + 1}-{_FILE_NAME.sub('_', value)[:50]}.duckdb"
                command = [word.replace(f"{{{name}}}", value) for word in program]
                points.append(Point(value, _measured(command, trace, per)))
                if keep is None:
                    trace.unlink(missing_ok=True)
        except KeyboardInterrupt:
            # What was measured is worth its time.
            messages.say(f"stopped: {len(points)} of {len(values)} values are measured")
            is_interrupted = True
    if not any(point.demand for point in points):
        raise TracerError("no run tells of a rate of environment steps", hint=_HINT)
    write_stdout(
        render(swept(name, points), output_format, limit=None),
        is_data=output_format is AnswerFormat.CSV,
    )
    if is_interrupted:
        raise typer.Exit(128 + signal.SIGINT)


def _measured(command: Sequence[str], trace: Path, per: str | None) -> Demand | None:
    """Record a run and return what it demanded; None, and a warning, where that is not known."""
    try:
        record_run(command, trace, "the run")
        # Traces were made with rights that reading them does not need, and cannot have back.
        found = in_a_fork(partial(_demand, trace, per))
    except (TracerError, TraceError) as error:
        messages.failure(error, "warning")
        return None
    messages.say(f"{found.steps_per_s:,.0f} environment steps/s")
    return found


def _demand(trace: Path, per: str | None) -> Demand:
    write_nothing_but()
    with damage_reported(trace), open_trace(trace) as opened:
        return demand_of(opened, per)
