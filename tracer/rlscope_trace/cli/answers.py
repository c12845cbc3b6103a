"""How commands print answers."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.renderers import csv, json, markdown, text
from rlscope_analysis.result.table import Answer
from rlscope_trace.cli import messages
from rlscope_trace.errors import UsageError

FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Only what comes after: seconds since the start of the trace, or 200ms, 7us.",
        show_default=False,
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="TIME", help="Only what comes before, likewise.", show_default=False
    ),
]
PerOption = Annotated[
    str | None,
    typer.Option(
        metavar="OPERATION",
        help="The operation that counts as an iteration; else what looks like one.",
        show_default=False,
    ),
]
RedactOption = Annotated[
    bool,
    typer.Option(
        "--redact",
        help="Leave out of the page what tells who ran what where: hosts, users, command lines,"
        " titles of processes, paths, files of functions.",
    ),
]


class AnswerFormat(str, Enum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    HTML = "html"


_SUFFIXES = {
    ".html": AnswerFormat.HTML, ".htm": AnswerFormat.HTML, ".md": AnswerFormat.MARKDOWN,
    ".json": AnswerFormat.JSON, ".csv": AnswerFormat.CSV, ".txt": AnswerFormat.TABLE,
    "": AnswerFormat.TABLE,
}  # fmt: skip
OutputFormatOption = Annotated[
    AnswerFormat | None,
    typer.Option(
        "--format",
        help="Print tables, JSON, CSV, Markdown, or a page of HTML. Default: what the name of the"
        " output ends in (.html, .md, .json, .csv, .txt); tables to stdout.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    AnswerFormat,
    typer.Option("--format", help="Print tables, JSON, CSV, Markdown, or a page of HTML."),
]


def format_of(asked: AnswerFormat | None, output: Path | None) -> AnswerFormat:
    """Return the format that was asked for, or that the name of the output says.

    UsageError where these are not one, and where neither says anything.
    """
    said = _SUFFIXES.get(output.suffix.lower()) if output else AnswerFormat.TABLE
    if asked is not None:
        # A name without a suffix, and .txt, say little: any format is text.
        if said in (None, AnswerFormat.TABLE, asked):
            return asked
        raise UsageError(
            f"{output} is a name for {said.value}, and --format says {asked.value}",
            hint=f"--format {said.value}, or -o {example_of(asked)}",
        )
    if said is None:
        raise UsageError(
            f"which format {output} is to have is not clear from its name",
            hint="-o FILE.html, .md, .json, .csv or .txt, or --format",
        )
    return said


def example_of(output_format: AnswerFormat) -> str:
    """Return a name for a file of this format."""
    return f"FILE{next(suffix for suffix, one in _SUFFIXES.items() if one is output_format)}"


def render(
    found: Answer,
    output_format: AnswerFormat,
    *,
    limit: int | None,
    to_file: bool = False,
    hide: Callable[[str], str] = str,
) -> Iterable[str]:
    """Return the text of an answer; of tables at most `limit` rows (None: all).

    hide: what makes text of a trace fit to be shown to anybody, on a page.
    """
    if output_format is AnswerFormat.JSON:
        return json.render(found)
    if output_format is AnswerFormat.CSV:
        return csv.render(found.data)
    if output_format is AnswerFormat.MARKDOWN:
        return markdown.render(found, limit=limit)
    if output_format is AnswerFormat.HTML:
        # Brings numpy along, as the page of `report` does.
        from rlscope_analysis.renderers.html.answer import render as render_html

        return [render_html(found, limit=limit, hide=hide)]
    is_terminal = sys.stdout.isatty() and not to_file
    width = shutil.get_terminal_size().columns if is_terminal else text.WIDTH_ELSEWHERE
    return [text.render(found, limit=limit, width=width, is_terminal=is_terminal)]


@contextmanager
def telling_interrupts() -> Iterator[None]:
    """Say of Ctrl-C what happened: typer would turn it into an exit code only."""
    try:
        yield
    except KeyboardInterrupt:
        messages.error("interrupted")
        raise typer.Exit(128 + signal.SIGINT) from None
