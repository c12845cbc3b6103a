"""What a check found: one line for the user, with its remedy."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rlscope_trace.texts import shell_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = "rlscope-trace"

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `error` means tracing cannot work until it is mended."""

    name: str
    level: Level
    what: str
    remedy: str | None = None


def sudo_command(argv: Sequence[str]) -> str:
    """Return the user's own command line, to be pasted, with the privilege it lacks.

    `env "PATH=$PATH"` keeps a virtual environment on the PATH, which sudo's secure_path drops. A
    command that the PATH of the user's shell does not have is named in full.
    """
    words = shell_line(argv)
    program = sys.argv[0]
    if Path(program).name == _NAME and (_is_run_by_another() or not _is_on_path(program)):
        return f"sudo {shell_line([os.path.abspath(program)])} {words}"  # noqa: PTH100 - links stay
    return f'sudo env "PATH=$PATH" {_NAME} {words}'


def _is_run_by_another() -> bool:
    """Tell whether `uv run`, `poetry run` or `pipx run` made the PATH, for this command only."""
    return any(name in os.environ for name in ("UV_RUN_RECURSION_DEPTH", "POETRY_ACTIVE"))


def _is_on_path(program: str) -> bool:
    found = shutil.which(_NAME)
    return found is not None and Path(found).resolve() == Path(program).resolve()
