"""`rlscope-trace explain`: why one iteration takes as long as it does."""

from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.explain.answer import QUANTILES
from rlscope_analysis.explain.answer import explain as explained
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli.answers import (
    AnswerFormat,
    FormatOption,
    FromOption,
    PerOption,
    ToOption,
    render,
    telling_interrupts,
)
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.reading import write_nothing_but


def explain(  # noqa: PLR0913 - one parameter per option
    trace: Annotated[Path, typer.Argument(help="The trace.", show_default=False)],
    iteration: Annotated[
        str,
        typer.Option(
            metavar="WHICH",
            help=f"The number of the iteration, or {', '.join(QUANTILES)}.",
            autocompletion=lambda: list(QUANTILES),
        ),
    ] = "slowest",
    per: PerOption = None,
    start: FromOption = None,
    end: ToOption = None,
    output_format: FormatOption = AnswerFormat.TABLE,
    rows: Annotated[int, typer.Option(min=1, help="Rows in each table.")] = 20,
    every: Annotated[bool, typer.Option("--all", help="List every row.")] = False,
) -> None:
    """Show the critical path of one iteration, and in what it differs from typical ones."""
    write_nothing_but()
    with (
        telling_interrupts(),
        sweeping() as progress,
        damage_reported(trace),
        open_trace(trace, start=start, end=end, progress=progress) as opened,
    ):
        found = explained(opened, iteration, per=per)
        # Whole, before anything is printed: what is wrong with the trace may show late.
        chunks = list(render(found, output_format, limit=None if every else rows))
    write_stdout(chunks, is_data=output_format is AnswerFormat.CSV)
