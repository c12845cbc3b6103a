"""`rlscope-trace fleet`: many traces of one job, answered together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_analysis.errors import TraceError
from rlscope_analysis.fleet.answer import answer_of
from rlscope_analysis.fleet.collect import LeftOut, collect
from rlscope_analysis.fleet.members import Members, find_members
from rlscope_analysis.fleet.merge import merged
from rlscope_analysis.fleet.partial_file import partial_path
from rlscope_analysis.fleet.stacked import run_on_all
from rlscope_analysis.wording import count_of
from rlscope_trace import __version__
from rlscope_trace.cli import messages
from rlscope_trace.cli.answers import (
    AnswerFormat,
    FormatOption,
    PerOption,
    render,
    telling_interrupts,
)
from rlscope_trace.cli.fleet_store import fetched
from rlscope_trace.cli.live_progress import sweeping
from rlscope_trace.cli.output import write_stdout
from rlscope_trace.cli.partials import PartialStore
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.sql import (
    TABLE_ROWS,
    EveryRowOption,
    ResultFormat,
    ResultFormatOption,
    render_result,
)
from rlscope_trace.errors import NoRecorderError, UsageError
from rlscope_trace.fleet.bucket import store_of
from rlscope_trace.installed import require_recorder
from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from rlscope_analysis.fleet.stragglers import Offset

app = typer.Typer(
    no_args_is_help=True,
    help="Record all nodes of a Ray cluster, and answer for many traces of one job together;"
    " docs/fleet.md explains each number.",
)

_RECORDING = ("doctor", "record", "launch", "environment", "serve")


def _refuse() -> None:
    require_recorder()


def _add_recording() -> None:
    """Add what records; where that was left out of this installation, what says so."""
    try:
        require_recorder()
        from rlscope_trace.cli import fleet_recording, fleet_serve
    except (ImportError, NoRecorderError):
        any_words = {"ignore_unknown_options": True, "allow_extra_args": True}
        for name in _RECORDING:
            app.command(name, hidden=True, context_settings=any_words)(_refuse)
        return
    for name in _RECORDING:
        # Options end where the launched command begins.
        settings = {"allow_interspersed_args": name != "launch"}
        function = getattr(fleet_serve if name == "serve" else fleet_recording, name)
        app.command(name, context_settings=settings)(function)


_add_recording()

_Traces = Annotated[
    list[Path],
    typer.Argument(
        metavar="TRACE...",
        help="Traces, folders of them, the manifest of a fleet, or s3://BUCKET/DIR (summarize).",
        show_default=False,
    ),
]
_ROWS = 20


@app.command()
def summarize(
    traces: _Traces,
    per: PerOption = None,
    output_format: FormatOption = AnswerFormat.TABLE,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep/--no-keep",
            help="Write a small file beside each trace, TRACE.partial.parquet, that the next call"
            " reads instead of it.",
        ),
    ] = True,
    every: Annotated[bool, typer.Option("--all", help="List every row.")] = False,
) -> None:
    """Show what limits the members of a job together, how far they differ, and who is slow.

    A trace that is missing or damaged is named and left out.
    """
    with telling_interrupts(), fetched(traces) as local:
        members = find_members(local)
        paths = [partial_path(path) for path in members.traces.values()]
        # One for each folder: what counts is where.
        write_nothing_but(*({path.parent: path for path in paths}.values() if keep else ()))
        store = PartialStore()
        with sweeping() as progress:
            collected = collect(
                members.traces, reader=__version__, per=per, marks=members.marks,
                keep=store.keep if keep else None, progress=progress,
            )  # fmt: skip
        collected.left_out += [
            LeftOut(folder, folder, f"cannot be read: {why}")
            for folder, why in members.unread.items()
        ]
        if not collected.partials:
            one = collected.left_out[0]
            path = members.traces[one.member]
            raise TraceError(
                f"none of the traces can be read; {one.member}: {one.why}",
                hint=f"rlscope-trace summarize {shell_line([str(path)])}",
            )
        answer = answer_of(merged(collected.partials.items()), collected, _offsets(members))
        chunks = list(render(answer, output_format, limit=None if every else _ROWS))
    write_stdout(chunks, is_data=output_format is AnswerFormat.CSV)
    if store.refused:
        messages.warning(
            f"{count_of(store.failed, 'partial')} could not be kept: {store.refused}",
            "the next call works them out again; --no-keep does not try",
        )


def _refuse_stores(traces: list[Path]) -> None:
    """Refuse to ask traces that lie in an object store: all of each would have to be copied."""
    for trace in traces:
        store = store_of(trace)
        if store is not None:
            raise UsageError(
                f"{store}: fleet sql reads files", hint=f"aws s3 cp --recursive {store} run/"
            )


def _offsets(members: Members) -> dict[str, Offset] | None:
    """Return where each member is on the clock of the reference; None: nothing says so."""
    if not members.clocks:
        return None

    def offset(name: str) -> Offset:
        clock = members.clocks[name]
        return lambda ts_ns: clock.to_reference(ts_ns).at_ns

    return {name: offset(name) for name in members.clocks}


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One SQL query.", show_default=False)],
    traces: _Traces,
    output_format: ResultFormatOption = ResultFormat.TABLE,
    every: EveryRowOption = False,
) -> None:
    """Run one query on each trace, and print the rows one below the other with its name.

    A trace that is missing or damaged is named and left out; then the exit code is 1.
    """
    lost: list[str] = []

    def left_out(name: str, error: TraceError) -> None:
        lost.append(name)
        messages.warning(f"{name} left out: {error}")

    _refuse_stores(traces)
    with telling_interrupts():
        members = find_members(traces)
        for folder, why in members.unread.items():
            left_out(folder, TraceError(f"cannot be read: {why}"))
        write_nothing_but()
        result = run_on_all(members.traces, query, left_out)
        limit = None if every else TABLE_ROWS
        is_data = output_format is ResultFormat.CSV
        write_stdout(render_result(result, output_format, limit=limit), is_data=is_data)
    sys.stdout.flush()
    if lost:
        raise typer.Exit(1)
