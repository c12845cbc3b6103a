"""`rlscope-trace whatif`: what a change would do, predicted from a trace."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.damage import damage_told
from rlscope_analysis.trace import open_trace
from rlscope_analysis.whatif.answer import what_if
from rlscope_analysis.whatif.changes import Changes, Scaled
from rlscope_analysis.wording import printable
from rlscope_trace.cli.answers import (
    AnswerFormat,
    FromOption,
    ToOption,
    render,
    telling_interrupts,
)
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.errors import UsageError

_MOST = 4096
_LARGEST = 1e6


def whatif(  # noqa: PLR0913 - one parameter per option
    trace: Annotated[Path, typer.Argument(help="The trace.", show_default=False)],
    speedup: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATION=K",
            help="The operation K times as fast; inf: it costs nothing. May be repeated.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPERATION=K",
            help="The operation K times as often, as with other epochs. May be repeated.",
            show_default=False,
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=_MOST, help="On so many CPUs.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=_MOST,
            help="With so many worker processes, each doing what one does now: a lower bound.",
            show_default=False,
        ),
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(
            metavar="OPERATION",
            help="The operation that counts as an iteration; else what looks like one.",
            show_default=False,
        ),
    ] = None,
    start: FromOption = None,
    end: ToOption = None,
    output_format: Annotated[
        AnswerFormat, typer.Option("--format", help="Print a table, one JSON object, or CSV.")
    ] = AnswerFormat.TABLE,
) -> None:
    """Predict how long an iteration would take with something changed.

    The iterations of the trace are replayed with the change. Without one, it ranks what would help
    most. Grade A, B, or C: a bound or a rough estimate.
    """
    write_nothing_but()
    scaled = (*_scaled("--speedup", speedup or []), *_scaled("--count", count or []))
    changes = Changes(scaled, cpus, workers)
    with (
        telling_interrupts(),
        sweeping() as progress,
        damage_told(trace),
        open_trace(trace, start=start, end=end, progress=progress) as opened,
    ):
        found = what_if(opened, changes, per=per)
        chunks = list(render(found, output_format, limit=None))
    write_stdout(chunks, is_data=output_format is AnswerFormat.CSV)


def _scaled(option: str, texts: list[str]) -> Iterator[Scaled]:
    """Read OPERATION=K. Raises UsageError."""
    is_count = option == "--count"
    for text in texts:
        operation, _, number = text.rpartition("=")
        value = _number(number)
        if not operation or value is None or (is_count and value == math.inf):
            raise UsageError(
                f"{option} {printable(text)}: this is not OPERATION=NUMBER above 0",
                hint=f"{option} simulation=2",
            )
        yield Scaled(operation, value if is_count else 1 / value, is_count)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == math.inf or 1 / _LARGEST <= value <= _LARGEST else None
