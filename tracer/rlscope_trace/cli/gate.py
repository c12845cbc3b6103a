"""`rlscope-trace gate`: fails where something got worse by more than is allowed."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

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
from rlscope_trace.cli.output import write_file, write_stdout
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.sides import SidesCommand, sides_of
from rlscope_trace.errors import TracerError, UsageError
from rlscope_trace.installed import require_recorder
from rlscope_trace.privileges import chown_to_invoker, invoking_identity
from rlscope_trace.signals import signals_interrupt

_COMMAND = "rlscope_trace.cli.gate.command"
_ROWS = 5
_HINT = "rlscope-trace gate --max iteration=+3% BASE NEW"
EXIT_CODES = {limits_of.OK: 0, limits_of.WORSE: 1, limits_of.CANNOT_TELL: 4}


class GateFormat(str, Enum):
    """How the outcome is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    GITHUB = "github"


class CommandClass(SidesCommand):
    """Takes what stands after the first `--` as the program, untouched."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
        """Keep the program away from the options."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])


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
    """Fail where something got worse by more than is allowed: exit 1; 4 where that cannot be told.

    Traces of both sides, or a stored baseline against runs made now:
    rlscope-trace gate --save base.json --runs 5 -- python train.py, and later
    rlscope-trace gate --max iteration=+3% --base base.json --runs 5 -- python train.py.
    """
    limits = [limits_of.limit_of(text) for text in most or ()]
    command = context.meta[_COMMAND]
    if not limits and save is None:
        raise UsageError("no limit is given", hint=_HINT)
    asked = _Asked(limits, per, save, junit_file, output_format, force=force)
    with telling_interrupts(), _recorded(command, runs) as recorded:
        if not command:
            code = _judge(asked, *_sides(asked, traces, base, new, []))
        else:
            sides = _sides(asked, traces, base, new, recorded)
            # Traces were made with rights that reading them does not need, and cannot have back.
            code = in_a_fork(partial(_judge, asked, *sides))
    raise typer.Exit(code)


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


def _sides(
    asked: _Asked,
    traces: Sequence[Path] | None,
    base: Sequence[Path] | None,
    new: Sequence[Path] | None,
    recorded: Sequence[Path],
) -> tuple[list[Path], list[Path]]:
    """Return the files of both sides; without limits there is one."""
    if recorded:
        if new or (traces and base) or len(traces or ()) > 1:
            raise UsageError("NEW is the program after --, and traces are given too", hint=_HINT)
        before = list(base or traces or ())
        if asked.limits and not before:
            raise UsageError("nothing to compare with", hint="--base BASELINE, or traces")
        return before, list(recorded)
    if not asked.limits:
        return [], [*(traces or ()), *(new or ())]
    return sides_of(traces, base, new)


def _judge(asked: _Asked, base: Sequence[Path], new: Sequence[Path]) -> int:
    """Compare, write what is to be written, and return the exit code."""
    write_nothing_but(*asked.outputs)
    before, after = _runs(base, asked.per), _runs(new, asked.per)
    if not after:
        raise UsageError("no trace is given", hint="rlscope-trace gate --save FILE TRACES")
    if asked.save is not None:
        write_file(asked.save, text_of(after), force=asked.force)
        messages.say(f"wrote {asked.save}: a baseline of {len(after)} runs")
    if not asked.limits:
        return 0
    found = compared(before, after)
    results = limits_of.held(found, asked.limits)
    if asked.junit is not None:
        write_file(asked.junit, junit(found, results), force=asked.force)
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
    require_recorder()
    base = Path(tempfile.mkdtemp(prefix="rlscope-gate-"))
    try:
        # The user that called sudo passes through, and writes into a folder of its own only.
        base.chmod(0o711)
        folder = base / "traces"
        folder.mkdir()
        chown_to_invoker(folder, invoking_identity())
        with signals_interrupt():
            yield [
                _record(command, folder / f"{run}.duckdb", run, runs) for run in range(1, runs + 1)
            ]
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _record(command: Sequence[str], trace: Path, run: int, runs: int) -> Path:
    messages.say(f"run {run} of {runs}")
    recorder = [sys.executable, "-m", "rlscope_trace", "record", "--progress", "never"]
    # What the program says is for people; the outcome alone goes to stdout.
    done = subprocess.run(
        [*recorder, "-o", str(trace), "--", *command], stdout=sys.stderr, check=False
    )
    if done.returncode or not trace.exists():
        raise TracerError(
            f"run {run} ended with exit code {done.returncode}",
            hint=f"sudo rlscope-trace -- {' '.join(command)[:200]}",
        )
    return trace
