"""`rlscope-trace summarize`: where the time of each process and thread went."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.operations.answer import answer_of as answer_of_operations
from rlscope_analysis.operations.of_operation import REPORTS_OF_OPERATION, of_operation
from rlscope_analysis.operations.report import report_operations
from rlscope_analysis.overview.answer import answer_of as first_screen
from rlscope_analysis.overview.answer import answer_with, overview
from rlscope_analysis.reports import REPORTS, Report
from rlscope_analysis.reports.answer import answer
from rlscope_analysis.result.table import Answer
from rlscope_analysis.summary.answer import answer_of
from rlscope_analysis.summary.read import summarize as compute
from rlscope_analysis.trace import Trace, open_trace
from rlscope_trace.cli.answers import (
    AnswerFormat,
    FromOption,
    OutputFormatOption,
    ToOption,
    example_of,
    format_of,
    render,
    telling_interrupts,
)
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.output import write_file, write_stdout
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.errors import UsageError
from rlscope_trace.outputs.place import refuse_read
from rlscope_trace.texts import shell_line

_ROWS = 20


class Grouping(str, Enum):
    """What a summary can be divided by."""

    OPERATION = "operation"


def summarize(  # noqa: PLR0913 - one parameter per option
    trace: Annotated[Path, typer.Argument(help="The trace to summarize.", show_default=False)],
    output_format: OutputFormatOption = None,
    by: Annotated[
        Grouping | None,
        typer.Option(
            help="Show the time of each operation (NVTX range or automatic phase): on CPU,"
            " runnable, off CPU, per instance and per iteration, and as a tree.",
            show_default=False,
        ),
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(
            metavar="OPERATION",
            help="The operation that counts as an iteration. Else updates of the model are, or"
            " the outermost one called iteration, step, update or epoch.",
            show_default=False,
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            help=f"Answer one question instead: {', '.join(REPORTS)}."
            " (--view operation is the same as --by operation.)",
            show_default=False,
            metavar="NAME",
            autocompletion=lambda: list(REPORTS),
        ),
    ] = None,
    operation: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Show one operation only; with --view {' or '.join(REPORTS_OF_OPERATION)}.",
            show_default=False,
        ),
    ] = None,
    start: FromOption = None,
    end: ToOption = None,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Rows in each table (20): of threads, those that ran longest.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Tell everything, and list every row in each table.")
    ] = False,
    top: Annotated[int, typer.Option(min=0, help="Wakers shown of each thread.")] = 3,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.")] = False,
) -> None:
    """Show where the time of each process and thread went; docs/summary.md explains the numbers."""
    report = _report(view, by, per)
    _check_operation(report, operation)
    limit = rows or (None if every else _ROWS)
    if output is not None:
        refuse_read(output, (trace,))
    shown = format_of(output_format, output)
    write_nothing_but(*(() if output is None else (output,)))
    with telling_interrupts():
        with (
            sweeping() as progress,
            damage_reported(trace),
            open_trace(trace, start=start, end=end, progress=progress) as opened,
        ):
            if report is not None and operation is not None:
                report = of_operation(opened, report, operation)
            is_first_look = not every and shown is AnswerFormat.TABLE
            found = _ask(opened, report, per=per, top=top, is_first_look=is_first_look)
        chunks = render(found, shown, limit=limit, to_file=output is not None)
        if output is None:
            write_stdout(chunks, is_data=shown is AnswerFormat.CSV)
        else:
            example = f"-o {example_of(shown)}"
            write_file(output, "".join(chunks), force=force, elsewhere=example, read=(trace,))


def _report(view: str | None, by: Grouping | None, per: str | None) -> Report | None:
    """Return the report that the options ask for; None: the summary of everything."""
    if view is not None and view not in REPORTS:
        raise UsageError(f"there is no view {view!r}", hint=f"one of: {', '.join(REPORTS)}")
    if by is not None and view not in {None, by.value}:
        raise UsageError(f"--by {by.value} and --view {view} exclude each other", hint="give one")
    name = view if by is None else by.value
    if per is not None and name is not None and not REPORTS[name].by_iteration:
        raise UsageError(
            f"--per says what an iteration is, and --view {name} is not about iterations",
            hint=f"--by operation --per {shell_line([per])}",
        )
    return None if name is None else REPORTS[name]


def _check_operation(report: Report | None, operation: str | None) -> None:
    if operation is None or (report is not None and report.name in REPORTS_OF_OPERATION):
        return
    raise UsageError(
        f"--operation is for --view {' or '.join(REPORTS_OF_OPERATION)}",
        hint=f"--view {REPORTS_OF_OPERATION[0]} --operation {shell_line([operation])}",
    )


def _ask(
    trace: Trace, report: Report | None, *, per: str | None, top: int, is_first_look: bool
) -> Answer:
    if report is None:
        reported = overview(trace, per=per)
        if is_first_look:
            return first_screen(reported)
        return answer_with(reported, answer_of(compute(trace), top=top))
    if report.name == Grouping.OPERATION.value:
        return answer_of_operations(report_operations(trace, per=per))
    if report.by_iteration:
        trace.critical_path(per=per)
    return answer(trace, report)
