"""`rlscope-trace import`: makes a trace of the files of another profiler."""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlscope_trace.cli import messages
from rlscope_trace.cli.file_mode import DEFAULT_MODE, ForceOption, ModeOption, parse_mode
from rlscope_trace.cli.reading import write_nothing_but
from rlscope_trace.cli.saving import ProgressBar, add_derived, progress_bar, report_import
from rlscope_trace.outputs.names import require_possible, require_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

    from rlscope_trace.ingest.writer.trace_writer import TraceWriter

    _Prepare = Callable[[ExitStack], None]
    _Made = Callable[[ProgressBar, int], AbstractContextManager[TraceWriter]]

app = typer.Typer(
    no_args_is_help=True,
    help="Make a trace of the files of another profiler; docs/import.md says what becomes what.",
)

_Output = Annotated[Path, typer.Option("--output", "-o", help="Trace to write.")]


@app.command()
def kineto(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="JSON files of the PyTorch profiler, plain or gzipped: one per rank.",
            show_default=False,
        ),
    ],
    output: _Output = Path("trace.duckdb"),
    salvage: Annotated[
        bool,
        typer.Option("--salvage", help="Keep what comes before the damage in a damaged file."),
    ] = False,
    force: ForceOption = False,
    mode: ModeOption = DEFAULT_MODE,
) -> None:
    """Import traces of the PyTorch profiler (Kineto, Chrome JSON), all of them into one trace."""

    def made(progress: ProgressBar, permissions: int) -> AbstractContextManager[TraceWriter]:
        from rlscope_trace.ingest.importers.kineto import import_kineto

        return import_kineto(
            files, output, salvage=salvage, overwrite=force, progress=progress, mode=permissions
        )

    _import(files, output, mode, made)


@app.command()
def nsys(
    files: Annotated[
        list[Path],
        typer.Argument(help="SQLite exports of Nsight Systems.", show_default=False),
    ],
    output: _Output = Path("trace.duckdb"),
    force: ForceOption = False,
    mode: ModeOption = DEFAULT_MODE,
) -> None:
    """Import traces of Nsight Systems: nsys export --type sqlite REPORT.nsys-rep."""
    names: dict[Path, Path] = {}

    def prepare(stack: ExitStack) -> None:
        from rlscope_trace.cli.nsys_names import names_for_sqlite

        names.update(stack.enter_context(names_for_sqlite(files, output, overwrite=force)))

    def made(progress: ProgressBar, permissions: int) -> AbstractContextManager[TraceWriter]:
        from rlscope_trace.ingest.importers.nsys import import_nsys

        return import_nsys(
            files, output, overwrite=force, progress=progress, mode=permissions, names=names
        )

    _import(files, output, mode, made, prepare)


@app.command()
def xplane(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Profiles of JAX (*.xplane.pb), or the folder of one run.", show_default=False
        ),
    ],
    hlo: Annotated[
        Path | None,
        typer.Option(
            "--hlo",
            metavar="DIR",
            help="Dumped programs of XLA (--xla_dump_hlo_as_proto), where a profile has none.",
            show_default=False,
        ),
    ] = None,
    output: _Output = Path("trace.duckdb"),
    force: ForceOption = False,
    mode: ModeOption = DEFAULT_MODE,
) -> None:
    """Import profiles of JAX (jax.profiler), with the phases inside of what is one jit."""

    def made(progress: ProgressBar, permissions: int) -> AbstractContextManager[TraceWriter]:
        from rlscope_trace.ingest.importers.xplane import import_xplane

        return import_xplane(
            files, output, hlo=hlo, overwrite=force, progress=progress, mode=permissions
        )

    _import(files, output, mode, made)


def _import(
    files: list[Path], output: Path, mode: str, made: _Made, prepare: _Prepare | None = None
) -> None:
    """Make a trace of files.

    prepare: does what takes the right to start programs. made: yields the trace, given a bar and
    the mode as a number. What they need is loaded in them, not before: that takes a while, and
    Ctrl-C has been heard by then.
    """
    permissions = parse_mode(mode)
    for path in files:
        require_utf8(path)
    require_possible(output)
    with _telling_interrupts(output), ExitStack() as stack:
        if prepare is not None:
            prepare(stack)
        write_nothing_but(output, mode=permissions)
        with progress_bar() as progress, made(progress, permissions) as trace:
            add_derived(trace)
    report_import(trace.report)


@contextmanager
def _telling_interrupts(output: Path) -> Iterator[None]:
    """Say of Ctrl-C, which typer would turn into an exit code only, what it left."""
    with _noting_interrupts() as interrupts:
        try:
            yield
        except BaseException as error:
            if not interrupts and not isinstance(error, KeyboardInterrupt):
                raise
            messages.error(f"interrupted: {output} was not written")
            raise typer.Exit(128 + signal.SIGINT) from None


@contextmanager
def _noting_interrupts() -> Iterator[list[int]]:
    """Remember each Ctrl-C: DuckDB may turn one that meets it into an error of another name."""
    interrupts: list[int] = []

    def on_interrupt(number: int, _frame: FrameType | None) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    # A job that a shell started in the background ignores them, and goes on to do so.
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupts
        return
    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
