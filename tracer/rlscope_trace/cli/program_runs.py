"""Commands that record a program, again and again: `gate`, `validate`, and `balance --sweep`."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from rlscope_trace.cli.scratch import folders_of_invoker
from rlscope_trace.ending import wait_for
from rlscope_trace.errors import TracerError
from rlscope_trace.installed import own_command, require_recorder
from rlscope_trace.signals import signals_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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
    with folders_of_invoker("runs", "traces") as (folder,), signals_interrupt():
        yield folder


def record_run(command: Sequence[str], trace: Path, what: str) -> Path:
    """Record a run of a program; `what`: its name in messages. Raises TracerError."""
    recorder = [*own_command("rlscope_trace"), "record", "--progress", "never"]
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
