"""`rlscope-trace summarize`: where the time of each process and thread went."""

import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.damage import damage_told
from rlscope_analysis.operations import report as report_operation
from rlscope_analysis.operations.of_operation import REPORTS_OF_OPERATION, of_operation
from rlscope_analysis.operations.table import render_table as render_operations
from rlscope_analysis.reports import REPORTS, Report
from rlscope_analysis.reports import answer as report_answer
from rlscope_analysis.reports import table as report_table
from rlscope_analysis.summary.as_csv import render_csv
from rlscope_analysis.summary.as_json import render_json
from rlscope_analysis.summary.as_table import render_table
from rlscope_analysis.summary.read import summarize as compute
from rlscope_analysis.summary.values import Summary
from rlscope_analysis.trace import Trace, open_trace
from rlscope_trace.cli import messages
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.output import write_file, write_stdout
from rlscope_trace.errors import UsageError
from rlscope_trace.privileges import invoking_identity
from rlscope_trace.rights import become_saver

# A pipe or a file has no width; nothing has to wrap for it before this.
_WIDTH_ELSEWHERE = 160


class SummaryFormat(str, Enum):
    """How the summary is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Grouping(str, Enum):
    """What a summary can be divided by."""

    OPERATION = "operation"


def summarize(  # noqa: PLR0913 - one parameter per option
    trace: Annotated[Path, typer.Argument(help="The trace to summarize.", show_default=False)],
    output_format: Annotated[
        SummaryFormat,
        typer.Option("--format", help="Print a table, one JSON object, or CSV per thread."),
    ] = SummaryFormat.TABLE,
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
            help="With --by operation: the operation that counts as an iteration. Else the"
            " outermost one called iteration, step, update or epoch, or the automatic phase"
            " simulation.",
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
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Only what comes after: seconds since the start of the trace, or 200ms, 7us.",
            show_default=False,
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", help="Only what comes before, likewise.", show_default=False
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, help="Rows in the table: of threads, those that ran longest.")
    ] = 20,
    every: Annotated[bool, typer.Option("--all", help="List every row in the table.")] = False,
    top: Annotated[int, typer.Option(min=0, help="Wakers shown of each thread.")] = 3,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.")] = False,
) -> None:
    """Show where the time of each process and thread went; docs/summary.md explains the numbers."""
    report = _report(view, by, per)
    _check_operation(report, operation)
    limit = None if every else rows
    if output is not None:
        become_saver(invoking_identity(), output)
    with (
        _telling_interrupts(),
        sweeping() as progress,
        damage_told(trace),
        open_trace(trace, start=start, end=end, progress=progress) as opened,
    ):
        if report is not None and operation is not None:
            report = of_operation(opened, report, operation)
        if report is None:
            text = _render(
                compute(opened), output_format, limit=limit, top=top, to_file=output is not None
            )
        elif report.name == Grouping.OPERATION.value:
            text = _render_operations(
                opened, per, output_format, limit=limit, to_file=output is not None
            )
        else:
            text = _render_view(
                opened, report, output_format, limit=limit, to_file=output is not None
            )
    if output is None:
        write_stdout([text], is_data=output_format is SummaryFormat.CSV)
    else:
        write_file(output, text, force=force)


@contextmanager
def _telling_interrupts() -> Iterator[None]:
    """Say of Ctrl-C what happened: typer would turn it into an exit code only."""
    try:
        yield
    except KeyboardInterrupt:
        messages.error("interrupted")
        raise typer.Exit(128 + signal.SIGINT) from None


def _report(view: str | None, by: Grouping | None, per: str | None) -> Report | None:
    """Return the report that the options ask for; None: the summary of everything."""
    if view is not None and view not in REPORTS:
        raise UsageError(f"there is no view {view!r}", hint=f"one of: {', '.join(REPORTS)}")
    if by is not None and view not in {None, by.value}:
        raise UsageError(f"--by {by.value} and --view {view} exclude each other", hint="give one")
    name = view if by is None else by.value
    if per is not None and name != Grouping.OPERATION.value:
        raise UsageError(
            "--per says what an iteration is in --by operation only",
            hint=f"--by operation --per {shlex.quote(per)}",
        )
    return None if name is None else REPORTS[name]


def _check_operation(report: Report | None, operation: str | None) -> None:
    if operation is None or (report is not None and report.name in REPORTS_OF_OPERATION):
        return
    raise UsageError(
        f"--operation is for --view {' or '.join(REPORTS_OF_OPERATION)}",
        hint=f"--view {REPORTS_OF_OPERATION[0]} --operation {shlex.quote(operation)}",
    )


def _render_operations(
    trace: Trace,
    per: str | None,
    output_format: SummaryFormat,
    *,
    limit: int | None,
    to_file: bool,
) -> str:
    report = report_operation.report_operations(trace, per=per)
    if output_format is SummaryFormat.JSON:
        return "".join(report_operation.render_json(report))
    if output_format is SummaryFormat.CSV:
        return "".join(report_operation.render_csv(report))
    is_terminal = sys.stdout.isatty() and not to_file
    return render_operations(report, limit=limit, is_terminal=is_terminal)


def _render_view(
    trace: Trace, report: Report, output_format: SummaryFormat, *, limit: int | None, to_file: bool
) -> str:
    found = report_answer.answer(trace, report)
    if output_format is SummaryFormat.JSON:
        return "".join(report_answer.render_json(found, trace))
    if output_format is SummaryFormat.CSV:
        return "".join(report_answer.render_csv(found))
    is_terminal = sys.stdout.isatty() and not to_file
    return report_table.render_page(found, trace, limit=limit, is_terminal=is_terminal)


def _render(
    summary: Summary, output_format: SummaryFormat, *, limit: int | None, top: int, to_file: bool
) -> str:
    if output_format is SummaryFormat.JSON:
        return render_json(summary, top=top)
    if output_format is SummaryFormat.CSV:
        return render_csv(summary)
    is_terminal = sys.stdout.isatty() and not to_file
    width = shutil.get_terminal_size().columns if is_terminal else _WIDTH_ELSEWHERE
    return render_table(summary, rows=limit, top=top, width=width, is_terminal=is_terminal)
