"""Commands that record a program, again and again: `gate`, `validate`, and `balance --sweep`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from rlscope_trace.errors import OutputExistsError, TracerError
from rlscope_trace.installed import require_recorder
from rlscope_trace.privileges import acting_as, chown_to_invoker, invoking_identity
from rlscope_trace.record.validate.ending import wait_for
from rlscope_trace.signals import signals_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import typer

_PROGRAM = "rlscope_trace.cli.program_runs.program"


class ProgramCommand(TyperCommand):
    """Takes what stands after the first `--` as the program, untouched."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
        """Keep the program away from the options."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_PROGRAM] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])


def program_of(context: typer.Context) -> list[str]:
    """Return the program after `--` and its arguments; nothing where there is none."""
    program: list[str] = context.meta[_PROGRAM]
    return program


@contextmanager
def folder_for_traces() -> Iterator[Path]:
    """Yield a folder that the recorder writes to, whoever it is; it is removed afterwards.

    Signals raise KeyboardInterrupt in it.
    """
    require_recorder()
    base = Path(tempfile.mkdtemp(prefix="rlscope-runs-"))
    try:
        # The user that called sudo passes through, and writes into a folder of its own only.
        base.chmod(0o711)
        folder = base / "traces"
        folder.mkdir()
        chown_to_invoker(folder, invoking_identity())
        with signals_interrupt():
            yield folder
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextmanager
def new_folder(keep: Path, *, option: str = "--keep") -> Iterator[Path]:
    """Make a folder for what is kept; if nothing is in it at the end, it is removed.

    Raises OutputExistsError, and TracerError where it cannot be made.
    """
    try:
        with acting_as(invoking_identity()):
            keep.mkdir()
    except FileExistsError:
        raise OutputExistsError(f"{keep} exists", hint=f"{option} names a new folder") from None
    except OSError as error:
        raise TracerError(f"cannot make {keep}: {error.strerror}") from error
    try:
        yield keep.absolute()
    finally:
        # Then it is not in the way of the next try.
        with suppress(OSError), acting_as(invoking_identity()):
            keep.rmdir()


def record_run(command: Sequence[str], trace: Path, what: str) -> Path:
    """Record a run of a program; `what`: its name in messages. Raises TracerError."""
    recorder = [sys.executable, "-m", "rlscope_trace", "record", "--progress", "never"]
    # What the program says is for people; the outcome alone goes to stdout. Ctrl-C reaches us
    # alone, who then end the run.
    process = subprocess.Popen(
        [*recorder, "-o", str(trace), "--", *command],
        stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True,
    )  # fmt: skip
    wait_for(process)
    if process.returncode or not trace.exists():
        raise TracerError(
            f"{what} ended with exit code {process.returncode}",
            hint=f"sudo rlscope-trace -- {' '.join(command)[:200]}",
        )
    return trace
