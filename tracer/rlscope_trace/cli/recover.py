"""`rlscope-trace recover`: makes a trace of what a recorder that was killed left behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rlscope_trace.cli import messages
from rlscope_trace.cli.file_mode import DEFAULT_MODE, ForceOption, ModeOption, parse_mode
from rlscope_trace.cli.interrupts import second_interrupt_stops
from rlscope_trace.cli.saving import report, save_trace
from rlscope_trace.errors import SpoolError, UsageError
from rlscope_trace.outputs.names import require_possible, require_utf8
from rlscope_trace.outputs.trusted import ForeignLinkError, closing, open_folder, path_of
from rlscope_trace.privileges import invoking_identity
from rlscope_trace.rights import become_saver
from rlscope_trace.spool.directory import Spool, open_spool
from rlscope_trace.texts import shell_line

_SUFFIX = ".spool"


def recover(
    spool: Annotated[
        Path,
        typer.Argument(help="The directory TRACE.spool that the recorder left beside its output."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Trace to write; default: the spool without .spool."),
    ] = None,
    force: ForceOption = False,
    mode: ModeOption = DEFAULT_MODE,
) -> None:
    """Make a trace of the spool of a recorder that was killed, or that could not save.

    What the trace lacks is written into it and shown.
    """
    written = output or _default_output(spool)
    require_utf8(spool)
    require_possible(written)
    permissions = parse_mode(mode)
    become_saver(invoking_identity(), written, spool, mode=permissions)
    with _opened(spool) as opened:
        _recover(opened, written, force=force, mode=permissions)


def _recover(opened: Spool, written: Path, *, force: bool, mode: int) -> None:
    if opened.is_live():
        raise SpoolError(
            f"the recorder with pid {opened.session.get('recorder_pid')} is still writing"
            f" {opened.shown}",
            hint=f"stop it first: kill -INT {opened.session.get('recorder_pid')}",
        )
    if not opened.end_ns:
        messages.note("the recording was cut off: threads end at their last record")
    with second_interrupt_stops(opened.shown):
        saved = save_trace(opened, written, overwrite=force, mode=mode)
    report(saved)
    if opened.is_there():
        messages.note(f"the spool {opened.shown} stays: it cannot be deleted from here")


@contextmanager
def _opened(spool: Path) -> Iterator[Spool]:
    """Open a spool by a descriptor, so that it stays the same one while it is read."""
    try:
        descriptor = open_folder(spool)
    except ForeignLinkError as error:
        raise SpoolError(
            f"{spool} is reached by a link of another user, who may lead you anywhere",
            hint="name the folder that the link leads to, if it is the one you mean",
        ) from error
    except OSError:
        # It says what is wrong.
        yield open_spool(spool)
        return
    with closing(descriptor):
        yield open_spool(path_of(descriptor) or spool, shown=spool)


def _default_output(spool: Path) -> Path:
    path = spool.absolute()
    if path.suffix != _SUFFIX:
        raise UsageError(
            f"{spool} is not called TRACE{_SUFFIX}, so the name of its trace is not known",
            hint=shell_line(["rlscope-trace", "recover", str(spool), "-o", "TRACE.duckdb"]),
        )
    return path.with_suffix("")
