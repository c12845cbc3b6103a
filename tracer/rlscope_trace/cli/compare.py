"""`rlscope-trace compare`: what differs between traces, where, and whether that is noise."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.compare.answer import FIRST_SCREEN, answer_of
from rlscope_analysis.compare.comparison import compare as compared
from rlscope_analysis.compare.read import read_sides
from rlscope_trace.cli.answers import (
    AnswerFormat,
    FormatOption,
    PerOption,
    render,
    telling_interrupts,
)
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.sides import SidesCommand, sides_of

CommandClass = SidesCommand
# Where the command line, which names the traces, is not in sight.
_READ_ELSEWHERE = (AnswerFormat.HTML, AnswerFormat.MARKDOWN)


def compare(  # noqa: PLR0913 - one parameter per option
    traces: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[BASE NEW]", help="Two traces.", show_default=False),
    ] = None,
    base: Annotated[
        list[Path] | None,
        typer.Option(metavar="TRACES", help="Traces of before, several runs.", show_default=False),
    ] = None,
    new: Annotated[
        list[Path] | None,
        typer.Option(metavar="TRACES", help="Traces of after, likewise.", show_default=False),
    ] = None,
    per: PerOption = None,
    output_format: FormatOption = AnswerFormat.TABLE,
    every: Annotated[
        bool,
        typer.Option("--all", help="List every part, function, count and fact of the machine."),
    ] = False,
) -> None:
    """Tell whether a program got better or worse, where, and whether that is more than noise.

    Two traces, or several runs of each side: --base old*.duckdb --new new*.duckdb. Times are per
    iteration; docs/compare.md explains each number.
    """
    write_nothing_but()
    before, after = sides_of(traces, base, new)
    with telling_interrupts():
        found = compared(*read_sides(before, after, per=per))
        answer = answer_of(found, is_first_screen=not every)
        if output_format in _READ_ELSEWHERE:
            answer = replace(answer, head=(("base", _names(before)), ("new", _names(after))))
        chunks = list(render(answer, output_format, limit=None if every else FIRST_SCREEN))
    write_stdout(chunks, is_data=output_format is AnswerFormat.CSV)


def _names(traces: list[Path]) -> str:
    return ", ".join(str(trace) for trace in traces)
