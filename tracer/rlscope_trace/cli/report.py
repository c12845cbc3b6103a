"""`rlscope-trace report`: a trace as a page to look at, in one file."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli import messages
from rlscope_trace.cli.answers import (
    FromOption,
    PerOption,
    RedactOption,
    ToOption,
    telling_interrupts,
)
from rlscope_trace.cli.file_mode import DEFAULT_MODE, ForceOption, ModeOption, parse_mode
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.timeline_file import is_stdout, write_timeline
from rlscope_trace.errors import UsageError

if TYPE_CHECKING:
    from rlscope_analysis.result.page import Page

_SUFFIX = ".html"


def report(  # noqa: PLR0913 - one parameter per option
    trace: Annotated[Path, typer.Argument(help="The trace to show.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; - is stdout. Without it: beside the trace, its name with .html.",
            show_default=False,
        ),
    ] = None,
    force: ForceOption = False,
    redact: RedactOption = False,
    per: PerOption = None,
    start: FromOption = None,
    end: ToOption = None,
    mode: ModeOption = DEFAULT_MODE,
) -> None:
    """Write a page that shows what limits a training: one file, for any browser, offline.

    docs/report.md explains what is on it.
    """
    permissions = parse_mode(mode)
    place = _beside(trace) if output is None else output
    write_nothing_but(*(() if is_stdout(place) else (place,)), mode=permissions)
    began_s = time.monotonic()
    with (
        telling_interrupts(),
        sweeping() as progress,
        damage_reported(trace),
        ThreadPoolExecutor(max_workers=1) as beside,
    ):
        # Python takes as long to load them as DuckDB to show the trace.
        loading = beside.submit(_readers)
        with open_trace(trace, start=start, end=end, progress=progress) as opened:
            read_page, render = loading.result()
            page = render(read_page(opened, per=per), redact=redact)
    file_bytes = write_timeline(
        place, [page.encode()], force=force, elsewhere=f"-o FILE{_SUFFIX}", read=(trace,),
        mode=permissions,
    )  # fmt: skip
    if not is_stdout(place) and file_bytes is not None:
        messages.say(
            f"wrote {place}: {file_bytes / 1e3:,.0f} kB in {time.monotonic() - began_s:.1f} s;"
            " open it in a browser"
        )


def _readers() -> tuple[Callable[..., "Page"], Callable[..., str]]:
    # DuckDB loads it with the first result that it hands over in arrays.
    import numpy.ma  # noqa: F401

    from rlscope_analysis.page.read import read_page
    from rlscope_analysis.renderers.html import render

    return read_page, render


def _beside(trace: Path) -> Path:
    if not trace.name:
        raise UsageError(f"{trace} is a directory, not a trace", hint="rlscope-trace report TRACE")
    return trace.with_suffix(_SUFFIX)
