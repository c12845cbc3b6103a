"""`rlscope-trace summarize`: where the time of each process and thread went."""

import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis import report_view
from rlscope_analysis.report_csv import render_csv
from rlscope_analysis.report_json import render_json
from rlscope_analysis.report_table import render_table
from rlscope_analysis.reports import REPORTS, Report
from rlscope_analysis.summarize import summarize as compute
from rlscope_analysis.summary import Summary
from rlscope_analysis.trace import Trace, open_trace
from rlscope_trace.cli import messages
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.output import write_file, write_stdout
from rlscope_trace.errors import UsageError

# A pipe or a file has no width; nothing has to wrap for it before this.
_WIDTH_ELSEWHERE = 160


class SummaryFormat(str, Enum):
    """How the summary is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def summarize(  # noqa: PLR0913 - one parameter per option
    trace: Annotated[Path, typer.Argument(help="The trace to summarize.", show_default=False)],
    output_format: Annotated[
        SummaryFormat,
        typer.Option("--format", help="Print a table, one JSON object, or CSV per thread."),
    ] = SummaryFormat.TABLE,
    view: Annotated[
        str | None,
        typer.Option(
            help=f"Answer one question instead: {', '.join(REPORTS)}.",
            show_default=False,
            metavar="NAME",
            autocompletion=lambda: list(REPORTS),
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
    report = None if view is None else _report(view)
    limit = None if every else rows
    with (
        _telling_interrupts(),
        sweeping() as progress,
        open_trace(trace, start=start, end=end, progress=progress) as opened,
    ):
        if report is None:
            text = _render(
                compute(opened), output_format, limit=limit, top=top, to_file=output is not None
            )
        else:
            text = _render_view(
                opened, report, output_format, limit=limit, to_file=output is not None
            )
    if output is None:
        write_stdout([text])
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


def _report(name: str) -> Report:
    if name not in REPORTS:
        raise UsageError(f"there is no view {name!r}", hint=f"one of: {', '.join(REPORTS)}")
    return REPORTS[name]


def _render_view(
    trace: Trace, report: Report, output_format: SummaryFormat, *, limit: int | None, to_file: bool
) -> str:
    found = report_view.answer(trace, report)
    if output_format is SummaryFormat.JSON:
        return "".join(report_view.render_json(found, trace))
    if output_format is SummaryFormat.CSV:
        return "".join(report_view.render_csv(found))
    is_terminal = sys.stdout.isatty() and not to_file
    return report_view.render_table(found, limit=limit, is_terminal=is_terminal)


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
