"""`rlscope-trace compare`: what differs between traces, where, and whether that is noise."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.compare.answer import FIRST_SCREEN, answer_of
from rlscope_analysis.compare.comparison import compare as compared
from rlscope_analysis.compare.read import read_sides
from rlscope_analysis.page.private import private_words
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli import messages
from rlscope_trace.cli.answers import (
    AnswerFormat,
    OutputFormatOption,
    PerOption,
    RedactOption,
    example_of,
    format_of,
    render,
    telling_interrupts,
)
from rlscope_trace.cli.file_mode import DEFAULT_MODE, ForceOption, ModeOption, parse_mode
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.sides import SidesCommand, sides_of
from rlscope_trace.cli.timeline_file import is_stdout, write_timeline
from rlscope_trace.errors import UsageError
from rlscope_trace.outputs.place import refuse_read

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
    output_format: OutputFormatOption = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="List every part, function, count and fact of the machine."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write, as change.html or comment.md; else stdout.",
            show_default=False,
        ),
    ] = None,
    force: ForceOption = False,
    redact: RedactOption = False,
    mode: ModeOption = DEFAULT_MODE,
) -> None:
    """Tell whether a program got better or worse, where, and whether that is more than noise.

    Two traces, or several runs of each side: --base old*.duckdb --new new*.duckdb. Times are per
    iteration; docs/compare.md explains each number.
    """
    place = None if output is None or is_stdout(output) else output
    before, after = sides_of(traces, base, new)
    if place is not None:
        refuse_read(place, (*before, *after))
    shown = format_of(output_format, place)
    if redact and shown is not AnswerFormat.HTML:
        raise UsageError("only a page can be redacted", hint="-o FILE.html, or --format html")
    permissions = parse_mode(mode)
    write_nothing_but(*((place,) if place else ()), mode=permissions)
    with telling_interrupts():
        found = compared(*read_sides(before, after, per=per))
        answer = answer_of(found, is_first_screen=not every)
        if shown in _READ_ELSEWHERE:
            named = partial(_names, redact=redact)
            answer = replace(answer, head=(("base", named(before)), ("new", named(after))))
        hide = _hiding([*before, *after]) if redact else str
        limit = None if every else FIRST_SCREEN
        chunks = list(render(answer, shown, limit=limit, to_file=place is not None, hide=hide))
    if place is None:
        write_stdout(chunks, is_data=shown is AnswerFormat.CSV)
        return
    pieces = [chunk.encode() for chunk in chunks]
    write_timeline(
        place, pieces, force=force, elsewhere=f"-o {example_of(shown)}", read=(*before, *after),
        mode=permissions,
    )  # fmt: skip
    messages.say(f"wrote {place}")


def _hiding(traces: Sequence[Path]) -> Callable[[str], str]:
    """Return what takes the words of all these traces that tell who ran what where out of a text.

    One side may tell what only the other holds.
    """
    from rlscope_analysis.renderers.html.markup import hiding

    words = {str(trace) for trace in traces}
    for path in traces:
        with open_trace(path) as trace:
            words.update(private_words(trace))
    return hiding(words)


def _names(traces: list[Path], *, redact: bool) -> str:
    if redact:
        # As all words that are hidden, but told apart.
        one = len(traces) == 1
        return ", ".join(f"(hidden{'' if one else f' {at}'})" for at in range(1, len(traces) + 1))
    return ", ".join(str(trace) for trace in traces)
