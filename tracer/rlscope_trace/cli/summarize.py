"""`rlscope-trace summarize`: where the time of each process and thread went."""

import shutil
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.report_csv import render_csv
from rlscope_analysis.report_json import render_json
from rlscope_analysis.report_table import render_table
from rlscope_analysis.summarize import summarize as compute
from rlscope_analysis.summary import Summary
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli.output import write_file, write_stdout

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
    rows: Annotated[
        int, typer.Option(min=1, help="Threads in the table: those that ran longest.")
    ] = 20,
    every: Annotated[bool, typer.Option("--all", help="List every thread in the table.")] = False,
    top: Annotated[int, typer.Option(min=0, help="Wakers shown of each thread.")] = 3,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.")] = False,
) -> None:
    """Show where the time of each process and thread went; docs/summary.md explains the numbers."""
    with open_trace(trace) as opened:
        summary = compute(opened)
    limit = None if every else rows
    text = _render(summary, output_format, limit=limit, top=top, to_file=output is not None)
    if output is None:
        write_stdout([text])
    else:
        write_file(output, text, force=force)


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
