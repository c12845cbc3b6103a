"""`rlscope-trace balance`: what an environment step demands of CPUs, threads and GPU."""

from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.balance.answer import balance as balanced
from rlscope_analysis.damage import damage_told
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli.answers import (
    AnswerFormat,
    FromOption,
    PerOption,
    ToOption,
    render,
    telling_interrupts,
)
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.reading import write_nothing_but


def balance(
    trace: Annotated[Path, typer.Argument(help="The trace.", show_default=False)],
    per: PerOption = None,
    start: FromOption = None,
    end: ToOption = None,
    output_format: Annotated[
        AnswerFormat, typer.Option("--format", help="Print tables, one JSON object, or CSV.")
    ] = AnswerFormat.TABLE,
) -> None:
    """Tell whether CPUs, one thread or the GPU limit the rate of environment steps.

    Rates for other numbers of workers are upper bounds.
    """
    write_nothing_but()
    with (
        telling_interrupts(),
        sweeping() as progress,
        damage_told(trace),
        open_trace(trace, start=start, end=end, progress=progress) as opened,
    ):
        chunks = list(render(balanced(opened, per=per), output_format, limit=None))
    write_stdout(chunks, is_data=output_format is AnswerFormat.CSV)
