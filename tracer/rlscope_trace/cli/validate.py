"""`rlscope-trace validate`: holds the corrected times of a program to its untraced runs."""

from __future__ import annotations

import math
import os
import signal
from contextlib import contextmanager, nullcontext
from pathlib import Path  # noqa: TC003 - typer asks for it
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_analysis.sentences import quality_sentence
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli import messages
from rlscope_trace.cli.answers import AnswerFormat, FormatOption, render
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.program_runs import ProgramCommand, program_of
from rlscope_trace.cli.scratch import folders_of_invoker, new_folder
from rlscope_trace.cli.validate_answer import answer_of
from rlscope_trace.errors import UsageError
from rlscope_trace.privileges import acting_as, invoking_identity
from rlscope_trace.record.validate.plan import run_pairs, warm_up
from rlscope_trace.record.validate.runs import Runner
from rlscope_trace.record.validate.trace_figures import TraceFigures, read_figures
from rlscope_trace.record.validate.verdict import Asked, Validation
from rlscope_trace.record.validate.verdict import validate as judge
from rlscope_trace.signals import signals_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlscope_trace.record.validate.pairs import Pair

# What validate decides itself; the short ones may have their value right behind them.
_OWN_OF_RECORD = ("--output", "--pid", "--duration", "--force")
_SHORT_OF_RECORD = ("-o", "-p", "-d")


CommandClass = ProgramCommand
# Options that are not known are for record.
CONTEXT_SETTINGS = {"ignore_unknown_options": True, "allow_extra_args": True}


def validate(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    runs: Annotated[int, typer.Option(min=1, help="Pairs of an untraced and a traced run.")] = 9,
    max_bias: Annotated[
        float,
        typer.Option(
            min=0, metavar="PERCENT", help="What the corrected CPU time may be off, either way."
        ),
    ] = 5.0,
    per: Annotated[
        str | None,
        typer.Option(
            metavar="OPERATION",
            help="Also show the CPU time per instance of this operation.",
            show_default=False,
        ),
    ] = None,
    timers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The program writes how long its operations took to this file (RLSCOPE_TIMERS"
            ' names it): lines {"operation": NAME, "cpu_ns": N}.',
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the traces in a new folder.", show_default=False),
    ] = None,
    output_format: FormatOption = AnswerFormat.TABLE,
) -> None:
    """Run a program with and without tracing in turn; exit 1 if corrected times are off.

    rlscope-trace validate [OPTIONS] [OPTIONS OF record] -- COMMAND. The program must do the same
    work each time and end by itself; one run more comes first, to warm up. docs/validate.md.
    """
    command = program_of(context)
    options = list(context.args)
    _check(command, options, max_bias)
    _check_timers(timers)
    asked = Asked(tuple(command), tuple(options), runs, max_bias, per)
    # Also when a scheduler or a closed terminal ends us, the running program is stopped.
    with signals_interrupt(), _directories(keep) as (directory, traces):
        runner = Runner(command, options, directory, timers.absolute() if timers else None)
        pairs, interrupted = _collect(runner, asked, traces, keeps=keep is not None)
    if not pairs:
        messages.error("interrupted before a pair of runs was complete")
        raise typer.Exit(128 + signal.SIGINT)
    found = judge(pairs, asked)
    write_stdout(render(answer_of(found), output_format, limit=None))
    raise typer.Exit(_exit_code(found, interrupted=interrupted))


def _exit_code(found: Validation, *, interrupted: bool) -> int:
    if interrupted:
        return 128 + signal.SIGINT
    return 1 if found.is_biased else 0


def _check(command: list[str], options: list[str], max_bias: float) -> None:
    if not math.isfinite(max_bias):
        raise UsageError(f"--max-bias {max_bias} is no percentage", hint="--max-bias 5")
    if not command:
        raise UsageError(
            "no program to run", hint="rlscope-trace validate [OPTIONS] -- python train.py"
        )
    for option in options:
        if option.partition("=")[0] in _OWN_OF_RECORD or option.startswith(_SHORT_OF_RECORD):
            raise UsageError(
                f"{option} is not for validate, which writes traces of its own",
                hint="--keep DIR keeps them",
            )


def _check_timers(timers: Path | None) -> None:
    if timers is not None and os.path.lexists(timers):
        raise UsageError(
            f"{timers} exists, and would be removed before each run",
            hint=f"--timers names a file that the program makes: rm {timers}",
        )
    if timers is not None and not timers.parent.is_dir():
        raise UsageError(
            f"{timers.parent} is no folder", hint="--timers names a file that the program makes"
        )


@contextmanager
def _directories(keep: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield where the program's side of a run writes, and where traces go; remove what is ours."""
    with (
        folders_of_invoker("validate", "run", "traces") as (directory, traces),
        new_folder(keep) if keep else nullcontext(traces) as kept,
    ):
        yield directory, kept


def _collect(runner: Runner, asked: Asked, traces: Path, *, keeps: bool) -> tuple[list[Pair], bool]:
    """Return the pairs there are, and whether Ctrl-C ended it early."""

    def read(trace: Path, pid: int) -> TraceFigures:
        # Of the user that called sudo, in a folder of theirs.
        with acting_as(invoking_identity()):
            with open_trace(trace) as opened:
                figures = read_figures(opened.connection, pid=pid, words=quality_sentence)
            if not keeps:
                trace.unlink()
        return figures

    pairs: list[Pair] = []
    try:
        messages.say(f"{2 * asked.runs + 1} runs; the first one does not count")
        _, figures = warm_up(runner, traces / "warm-up.duckdb", read)
        check_operation(asked.per, figures)
        for pair in run_pairs(runner, asked.runs, lambda number: traces / f"{number}.duckdb", read):
            pairs.append(pair)
            _tell(pair, len(pairs), asked.runs)
    except KeyboardInterrupt:
        messages.say(f"stopped: {len(pairs)} of {asked.runs} pairs are complete")
        return pairs, True
    return pairs, False


def check_operation(per: str | None, figures: TraceFigures) -> None:
    """Raise UsageError where nothing has the name of the operation."""
    if per and per not in figures.instances:
        names = ", ".join(sorted(figures.instances)[:12])
        raise UsageError(
            f"the program has no operation {per!r}",
            hint=f"--per one of: {names}" if names else None,
        )


def _tell(pair: Pair, number: int, runs: int) -> None:
    messages.say(
        f"pair {number} of {runs}: CPU time untraced {pair.untraced.cpu_ns / 1e9:.2f} s,"
        f" traced {pair.traced.cpu_ns / 1e9:.2f} s, corrected {pair.corrected_ns / 1e9:.2f} s"
    )
