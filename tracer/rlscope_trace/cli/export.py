"""`rlscope-trace export`: a trace as a timeline file for other viewers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from rlscope_analysis.damage import damage_reported
from rlscope_analysis.export.timeline import Timeline
from rlscope_analysis.trace import open_trace
from rlscope_trace.cli import messages
from rlscope_trace.cli.file_mode import DEFAULT_MODE, ForceOption, ModeOption, parse_mode
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.timeline_file import is_stdout, write_timeline
from rlscope_trace.signals import signals_interrupt

app = typer.Typer(
    no_args_is_help=True,
    help="Write a trace as a timeline for other viewers; docs/export.md says what goes where.",
)

_ELSEWHERE = {"perfetto": "-o FILE.pftrace.gz", "chrome": "-o FILE.json.gz"}
_Trace = Annotated[Path, typer.Argument(help="The trace to export.", show_default=False)]
_From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Only what reaches beyond: seconds since the start of the trace, or 200ms, 7us, 12ns.",
        show_default=False,
    ),
]
_To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Only what begins before.", show_default=False),
]


@app.command()
def perfetto(  # noqa: PLR0913 - one parameter per option
    trace: _Trace,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="File to write, gzipped where its name ends in .gz; - is stdout."
        ),
    ] = Path("trace.pftrace.gz"),
    start: _From = None,
    end: _To = None,
    force: ForceOption = False,
    mode: ModeOption = DEFAULT_MODE,
) -> None:
    """Write Perfetto's protobuf: open it at https://ui.perfetto.dev, or with trace_processor."""
    _export(trace, "perfetto", output, start=start, end=end, force=force, mode=mode)


@app.command()
def chrome(  # noqa: PLR0913 - one parameter per option
    trace: _Trace,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="File to write, gzipped where its name ends in .gz; - is stdout."
        ),
    ] = Path("trace.json.gz"),
    start: _From = None,
    end: _To = None,
    force: ForceOption = False,
    mode: ModeOption = DEFAULT_MODE,
) -> None:
    """Write Chrome's JSON as the PyTorch profiler does: for what reads Kineto's files."""
    _export(trace, "chrome", output, start=start, end=end, force=force, mode=mode)


def _export(  # noqa: PLR0913 - one parameter per option
    trace: Path,
    form: str,
    output: Path,
    *,
    start: str | None,
    end: str | None,
    force: bool,
    mode: str,
) -> None:
    permissions = parse_mode(mode)
    write_nothing_but(*(() if is_stdout(output) else (output,)), mode=permissions)
    began_s = time.monotonic()
    with (
        signals_interrupt(),
        sweeping() as progress,
        damage_reported(trace),
        open_trace(trace, derives=False) as opened,
    ):
        timeline = Timeline(opened, form, start=start, end=end)
        total = timeline.total_rows or 0
        pieces = timeline.pieces(lambda rows: progress(rows, max(rows, total)))
        file_bytes = write_timeline(
            output, pieces, force=force, elsewhere=_ELSEWHERE[form], read=(trace,),
            mode=permissions,
        )  # fmt: skip
    if timeline.is_complete:
        duration_s, has_window = time.monotonic() - began_s, bool(start or end)
        _report(timeline, output, file_bytes, duration_s, has_window=has_window)


def _report(
    timeline: Timeline,
    output: Path,
    file_bytes: int | None,
    duration_s: float,
    *,
    has_window: bool,
) -> None:
    """Say what was written and what was not; nothing to somebody who has stopped listening."""
    if timeline.unreadable:
        messages.warning(f"{timeline.unreadable:,} rows of the trace are no intervals: left out")
    if timeline.unplaced:
        messages.warning(
            f"{timeline.unplaced:,} slices of threads or processes that the trace lacks: left out"
        )
    size = "" if file_bytes is None else f", {_size(file_bytes)}"
    messages.say(
        f"wrote {'stdout' if is_stdout(output) else output}: {timeline.slices:,} slices{size}"
        f" in {duration_s:.1f} s"
    )
    if not timeline.unreadable and not timeline.unplaced:
        messages.say("nothing left out" + " of this part of the trace" * has_window)


def _size(file_bytes: int) -> str:
    return f"{file_bytes / 1e3:,.0f} kB" if file_bytes < 1e6 else f"{file_bytes / 1e6:,.1f} MB"
