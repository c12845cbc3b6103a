"""`rlscope-trace gate`: fails where something got worse by more than is allowed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.compare import gate as limits_of
from rlscope_analysis.compare.baseline import is_baseline, read_baseline, text_of
from rlscope_analysis.compare.comparison import Comparison
from rlscope_analysis.compare.comparison import compare as compared
from rlscope_analysis.compare.gate_answer import answer_of, github, junit
from rlscope_analysis.compare.read import read_sides
from rlscope_analysis.compare.run import Run
from rlscope_trace.cli import messages
from rlscope_trace.cli.answers import AnswerFormat, PerOption, render, telling_interrupts
from rlscope_trace.cli.forked import in_a_fork
from rlscope_trace.cli.output import refuse_existing, write_file, write_stdout
from rlscope_trace.cli.program_runs import (
    ProgramCommand,
    folder_for_traces,
    program_of,
    record_run,
)
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.sides import SidesCommand, sides_of
from rlscope_trace.errors import UsageError

_ROWS = 5
_HINT = "rlscope-trace gate --max iteration=+3% BASE NEW"
EXIT_CODES = {limits_of.OK: 0, limits_of.WORSE: 1, limits_of.CANNOT_TELL: 4}


class GateFormat(str, Enum):
    """How the outcome is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    GITHUB = "github"


class CommandClass(ProgramCommand, SidesCommand):
    """Several traces after one --base or --new, and a program after `--`."""


def gate(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    traces: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[BASE NEW]", help="Two traces; BASE may be a baseline.", show_default=False
        ),
    ] = None,
    most: Annotated[
        list[str] | None,
        typer.Option(
            "--max",
            metavar="WHAT=+N%",
            help="By how much it may be more: iteration, step (of an environment), cpu, an"
            " operation (its time on the critical path), cpu:OPERATION, in %, ms or us;"
            " gpu_idle in pp. May be repeated.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        list[Path] | None,
        typer.Option(metavar="TRACES", help="Traces of before, or a baseline.", show_default=False),
    ] = None,
    new: Annotated[
        list[Path] | None,
        typer.Option(metavar="TRACES", help="Traces of after.", show_default=False),
    ] = None,
    runs: Annotated[
        int, typer.Option(min=1, max=1000, help="How often to record the program after --.")
    ] = 5,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a baseline of NEW, of the traces given, or of the program after --.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    per: PerOption = None,
    junit_file: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write JUnit XML too.", show_default=False),
    ] = None,
    output_format: Annotated[
        GateFormat,
        typer.Option("--format", help="Print tables, JSON, Markdown, or annotations of GitHub."),
    ] = GateFormat.TABLE,
) -> None:
    """Fail where something got worse by more than is allowed: exit 1; 4 where it stays open.

    Traces of both sides, or a stored baseline against runs made now:
    rlscope-trace gate --save base.json --runs 5 -- python train.py, and later
    rlscope-trace gate --max iteration=+3% --base base.json --runs 5 -- python train.py.
    """
    limits = [limits_of.limit_of(text) for text in most or ()]
    command = program_of(context)
    if not limits and save is None:
        raise UsageError("no limit is given", hint=_HINT)
    asked = _Asked(limits, per, save, junit_file, output_format, force=force)
    with telling_interrupts():
        if not command:
            code = _judge(asked, *_sides(asked, traces, base, new))
        else:
            before = _before(asked, traces, base, new)
            # Traces are made with rights that reading them does not need, and cannot have back.
            in_a_fork(partial(_check, asked, before))
            with _recorded(command, runs) as recorded:
                code = in_a_fork(partial(_judge, asked, before, recorded))
    raise typer.Exit(code)


_SAVE_ELSEWHERE, _JUNIT_ELSEWHERE = "--save FILE.json", "--junit FILE.xml"


class _Asked:
    """What is to be done with the two sides."""

    def __init__(  # noqa: PLR0913 - the options
        self,
        limits: Sequence[limits_of.Limit],
        per: str | None,
        save: Path | None,
        junit_file: Path | None,
        output_format: GateFormat,
        *,
        force: bool,
    ) -> None:
        self.limits = limits
        self.per = per
        self.save = save
        self.junit = junit_file
        self.format = output_format
        self.force = force

    @property
    def outputs(self) -> list[Path]:
        """Return the files that are written."""
        return [path for path in (self.save, self.junit) if path is not None]

    def elsewhere(self, path: Path) -> str:
        """Return what to give instead of an output that is no file."""
        return _SAVE_ELSEWHERE if path is self.save else _JUNIT_ELSEWHERE


def _sides(
    asked: _Asked,
    traces: Sequence[Path] | None,
    base: Sequence[Path] | None,
    new: Sequence[Path] | None,
) -> tuple[list[Path], list[Path]]:
    """Return the files of both sides; without limits there is one."""
    if not asked.limits:
        return [], [*(traces or ()), *(new or ())]
    return sides_of(traces, base, new)


def _before(
    asked: _Asked,
    traces: Sequence[Path] | None,
    base: Sequence[Path] | None,
    new: Sequence[Path] | None,
) -> list[Path]:
    """Return the files of BASE where NEW is a program that is to be recorded."""
    if new or (traces and base) or len(traces or ()) > 1:
        raise UsageError("NEW is the program after --, and traces are given too", hint=_HINT)
    before = list(base or traces or ())
    if asked.limits and not before:
        raise UsageError("nothing to compare with", hint="--base BASELINE, or traces")
    return before


def _check(asked: _Asked, base: Sequence[Path]) -> None:
    """Raise the errors that need no recording: hours of it would have been for nothing."""
    write_nothing_but()
    for path in asked.outputs:
        refuse_existing(path, force=asked.force, elsewhere=asked.elsewhere(path))
    _runs(base, asked.per)


def _judge(asked: _Asked, base: Sequence[Path], new: Sequence[Path]) -> int:
    """Compare, write what is to be written, and return the exit code."""
    write_nothing_but(*asked.outputs)
    before, after = _runs(base, asked.per), _runs(new, asked.per)
    if not after:
        raise UsageError("no trace is given", hint="rlscope-trace gate --save FILE TRACES")
    if asked.save is not None:
        write_file(
            asked.save, text_of(after), force=asked.force, elsewhere=_SAVE_ELSEWHERE, read=new
        )
        messages.say(f"wrote {asked.save}: a baseline of {len(after)} runs")
    if not asked.limits:
        return 0
    found = compared(before, after)
    results = limits_of.held(found, asked.limits)
    if asked.junit is not None:
        told = junit(found, results)
        write_file(asked.junit, told, force=asked.force, elsewhere=_JUNIT_ELSEWHERE, read=new)
    write_stdout(_text(asked.format, found, results))
    return EXIT_CODES[limits_of.outcome_of(results)]


def _text(
    output_format: GateFormat, found: Comparison, results: Sequence[limits_of.Held]
) -> list[str]:
    if output_format is GateFormat.GITHUB:
        return list(github(found, results))
    answer = answer_of(found, results)
    return list(render(answer, AnswerFormat(output_format.value), limit=max(_ROWS, len(results))))


def _runs(paths: Sequence[Path], per: str | None) -> list[Run]:
    """Return what is compared of traces and baselines."""
    stored = [path for path in paths if is_baseline(path)]
    runs, _ = read_sides([path for path in paths if path not in stored], [], per=per)
    return [*runs, *(run for path in stored for run in read_baseline(path))]


@contextmanager
def _recorded(command: Sequence[str], runs: int) -> Iterator[list[Path]]:
    """Yield traces of runs of a program; they are removed afterwards."""
    if not command:
        yield []
        return
    with folder_for_traces() as folder:
        yield [_record(command, folder / f"{run}.duckdb", run, runs) for run in range(1, runs + 1)]


def _record(command: Sequence[str], trace: Path, run: int, runs: int) -> Path:
    messages.say(f"run {run} of {runs}")
    return record_run(command, trace, f"run {run}")
